// What a person sees who has been invited to a call: a button to join, and what is going on. The call itself is in
// call.js, which is loaded when the seat is taken.

const TEXTS = {
  loading: "Asking for your camera and microphone …",
  ready: "The call begins when everybody is there. Keep this page open.",
  joined: "in the call",
  left: "You have left the call.",
  over: "The call is over. You can close this page.",
};

const ERRORS = {
  NotAllowedError: "the page may not use your camera or microphone. Allow it in the browser's settings of this page.",
  NotFoundError: "the browser finds no camera or no microphone.",
  NotReadableError: "another program uses your camera or microphone.",
};

const button = document.getElementById("join");
const message = document.getElementById("message");

function show(text) {
  message.textContent = text;
}

let failed = false;
function showError(text) {
  failed = true;
  document.body.classList.remove("calling");
  show(`It does not work: ${text}`);
}

document.addEventListener("state", ({ detail: state }) => {
  document.body.classList.toggle("calling", state === "joined");
  if (!failed) show(TEXTS[state] ?? state);
});
window.addEventListener("error", (event) => showError(event.message));
window.addEventListener("unhandledrejection", ({ reason }) => {
  showError(ERRORS[reason?.name] ?? String(reason));
});

// A click also lets the page play sound. A screen that goes dark would stop the camera.
button.onclick = async () => {
  button.hidden = true;
  show(TEXTS.loading);
  const taken = await fetch("take", { method: "POST" });
  if (!taken.ok) return showError(await taken.text());
  navigator.wakeLock?.request("screen").catch(() => {});
  await import("./call.js");
};
if (navigator.mediaDevices?.getUserMedia && window.RTCPeerConnection) button.disabled = false;
else showError("this browser has no camera for pages, or no WebRTC");
