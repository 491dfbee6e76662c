"use strict";
// The camera's connection. The other one is the frame's.
document.body.append(
  Object.assign(document.createElement("iframe"), { src: `frame.html${location.search}`, allow: "camera; microphone" }),
);
const call = new Call("camera");
report(me, [call]);

(async () => {
  const media = await navigator.mediaDevices.getUserMedia({ audio: true, video: { width: 320, height: 240 } });
  const [audio, video] = [media.getAudioTracks()[0], media.getVideoTracks()[0]];
  if (me !== "alice") await call.called;
  call.add(audio);
  const sender = call.add(video);
  while (call.pc.connectionState !== "connected") await sleep(0.1);
  note("media");
  if (me === "alice") {
    await sleep(2);
    const second = call.add(drawing());
    note("second track added");
    await sleep(3);
    call.pc.removeTrack(second);
    note("second track removed");
  } else {
    await sleep(3.5);
    const transceiver = call.pc.getTransceivers().find((one) => one.sender === sender);
    transceiver.direction = "recvonly";
    note("camera off");
    await sleep(2);
    transceiver.direction = "sendrecv";
    note("camera on");
  }
  console.warn("all renegotiated");
})().catch((error) => note(String(error)));
