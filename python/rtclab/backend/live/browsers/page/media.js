// The camera and the microphone of a participant.

// A user's own sound is sent as it is: noise suppression would remove music and tones.
const UNPROCESSED = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

// Opens the devices in `config`: `video` (width, height, frameRate) or null, `audio` (`file`: whether the browser's
// microphone plays a user's file) or null. `config.clip`, the address of a video file, is for browsers that cannot play
// a file as their camera; `config.sound` likewise for the microphone.
export async function openCamera(config) {
  const tracks = [];
  const own = { video: config.video && config.clip, audio: config.audio && config.sound };
  if (own.video) tracks.push(await trackOf("video", config.clip));
  if (own.audio) tracks.push(await trackOf("audio", config.sound));
  const picture = config.invited ? about : exactly;
  const wanted = {
    video: config.video && !own.video ? picture(config.video) : false,
    audio: config.audio && !own.audio ? (config.audio.file ? UNPROCESSED : true) : false,
  };
  if (wanted.video || wanted.audio) {
    const stream = await navigator.mediaDevices.getUserMedia(wanted);
    tracks.push(...stream.getTracks());
  }
  return new MediaStream(tracks);
}

// A phone's camera may lack the size or rate. Then its nearest one is used.
function about({ width, height, frameRate }) {
  return { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: frameRate } };
}

function exactly({ width, height, frameRate }) {
  return { width: { exact: width }, height: { exact: height }, frameRate: { exact: frameRate } };
}

// A track of a file that an element plays in a loop. The element is in the page, because a browser may pause others.
async function trackOf(kind, address) {
  const element = document.createElement(kind);
  Object.assign(element, { src: address, loop: true, playsInline: true });
  if (kind === "video") element.muted = true;
  element.style.cssText = "position: absolute; width: 2px; height: 2px";
  document.body.append(element);
  await element.play().catch((error) => {
    throw new Error(`cannot play ${address}: ${element.error?.message || error.message}`);
  });
  const stream = element.captureStream ? element.captureStream() : element.mozCaptureStream();
  const [track] = kind === "video" ? stream.getVideoTracks() : stream.getAudioTracks();
  return track ?? (await new Promise((resolve) => (stream.onaddtrack = (event) => resolve(event.track))));
}
