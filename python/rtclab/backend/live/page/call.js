// One participant of a call. The session serves this page and tells it over the report socket what to send, whom to
// call and when. The page joins by itself and reports what it sees, so the browser needs no driver.
import { Connection } from "./connection.js";
import { report, openReportSocket, reportErrors } from "./report.js";

const STATS_INTERVAL_MS = 1000;

let config;
let camera;
let signalling;
let statsTimer;
const connections = new Map(); // by the name of the other participant

function show(state) {
  document.getElementById("state").textContent = state;
}

// The camera is opened before the run begins, because opening it is not part of the set-up time.
async function prepare(message) {
  config = message;
  document.title = config.participant;
  camera = config.video || config.audio ? await openCamera(config) : new MediaStream();
  show("ready");
  report("ready", {});
}

function openCamera({ video, audio }) {
  const exactly = video && {
    width: { exact: video.width },
    height: { exact: video.height },
    frameRate: { exact: video.frameRate },
  };
  return navigator.mediaDevices.getUserMedia({ video: exactly ?? false, audio: audio !== null });
}

function join() {
  report("event", { event: "joined" });
  signalling = new WebSocket(config.signalling);
  signalling.onmessage = (event) => receive(JSON.parse(event.data));
  signalling.onerror = () => report("event", { event: "failed", detail: `no signalling at ${config.signalling}` });
  statsTimer = setInterval(reportStats, STATS_INTERVAL_MS);
  show("joined");
}

// A page that joins calls those who are already present, and they answer. So two pages never call each other at once.
async function receive(message) {
  if (message.type === "present") {
    for (const peer of message.participants) {
      if (peer in config.peers) await connectionTo(peer).call();
    }
  } else if (message.type === "gone") {
    await connections.get(message.from)?.reportStats();
    connections.get(message.from)?.close();
    connections.delete(message.from);
  } else {
    await connectionTo(message.from).receive(message);
  }
}

function connectionTo(peer) {
  if (!connections.has(peer)) {
    const send = (message) => signalling.send(JSON.stringify({ to: peer, ...message }));
    connections.set(peer, new Connection(peer, config, camera, send));
  }
  return connections.get(peer);
}

async function reportStats() {
  await Promise.all([...connections.values()].map((connection) => connection.reportStats()));
}

// Makes the last report. Media continue until the page is closed or told to leave.
async function finish() {
  clearInterval(statsTimer);
  await reportStats();
  report("event", { event: "left" });
  report("bye", {});
}

async function leave() {
  await finish();
  for (const connection of connections.values()) connection.close();
  camera.getTracks().forEach((track) => track.stop());
  signalling?.close();
  show("left");
}

reportErrors();
openReportSocket({ configure: prepare, join, finish, leave });
