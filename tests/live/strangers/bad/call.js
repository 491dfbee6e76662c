// A call of a page with itself.
"use strict";

async function callItself() {
  const [one, other] = [new RTCPeerConnection(), new RTCPeerConnection()];
  one.onicecandidate = ({ candidate }) => candidate && other.addIceCandidate(candidate);
  other.onicecandidate = ({ candidate }) => candidate && one.addIceCandidate(candidate);
  other.ontrack = ({ track }) => (document.querySelector("video").srcObject = new MediaStream([track]));
  const media = await navigator.mediaDevices.getUserMedia({ video: { width: 320, height: 240 } });
  one.addTrack(media.getVideoTracks()[0], media);
  await one.setLocalDescription();
  await other.setRemoteDescription(one.localDescription);
  await other.setLocalDescription();
  await one.setRemoteDescription(other.localDescription);
}
