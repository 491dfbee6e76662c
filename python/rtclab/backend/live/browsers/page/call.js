// One participant of its calls. The session serves this page and sends it, over the report socket, the media to send,
// the connections and the times. The page joins and reports by itself, so the browser needs no driver.
import { openChannel } from "./channel.js";
import { Connection } from "./connection.js";
import { JanusCall } from "./janus_call.js";
import { openCamera } from "./media.js";
import { openReportSocket, report, reportErrors } from "./report.js";
import { HttpResource } from "./whip.js";

const STATS_INTERVAL_MS = 1000;

let config;
let camera;
let signalling;
let statsTimer;
const connections = new Map(); // by number
const janusCalls = new Map(); // by call
const resources = new Map(); // of WHIP and WHEP, by number

function show(state) {
  document.getElementById("state").textContent = state;
  document.dispatchEvent(new CustomEvent("state", { detail: state }));
}

// The camera is opened before the run begins, because opening it is not part of the set-up time.
async function prepare(message) {
  config = message;
  document.title = config.participant;
  camera = config.video || config.audio ? await openCamera(config) : new MediaStream();
  show("ready");
  report("ready", config.invited ? { camera: pictureOf(camera) } : {});
}

function pictureOf(media) {
  const { width, height, frameRate } = media.getVideoTracks()[0]?.getSettings() ?? {};
  return width === undefined ? null : { width, height, frameRate: frameRate ?? 0 };
}

// Answers a question of the session, which compares the clock of an invited browser with its own.
function tellTime({ question }) {
  report("clock", { question });
}

// Joins the session with the calls that have already begun.
function join({ calls }) {
  report("event", { event: "joined" });
  signalling = openChannel(`${config.signalling}&calls=${calls.join(",")}`);
  signalling.onmessage = (event) => receive(JSON.parse(event.data));
  signalling.onerror = () => report("event", { event: "failed", detail: `no signalling at ${config.signalling}` });
  statsTimer = setInterval(reportStats, STATS_INTERVAL_MS);
  calls.forEach(joinServer);
  show("joined");
}

// Joins a call that begins after this participant has joined. A signalling socket that is still opening will do it.
function joinCall({ call }) {
  const ask = () => signalling.send(JSON.stringify({ join: call }));
  if (signalling.readyState === WebSocket.CONNECTING) signalling.addEventListener("open", ask);
  else if (signalling.readyState === WebSocket.OPEN) ask();
  joinServer(call);
}

// Joins a call over a server that the page talks to itself.
function joinServer(call) {
  for (const about of connectionsOf(call)) {
    const settings = config.resources[about.number];
    if (!settings) continue;
    resources.set(about.number, new HttpResource(about, settings, () => connectionTo(about)));
    resources.get(about.number).open();
  }
  joinJanus(call);
}

function joinJanus(call) {
  const room = config.rooms[call];
  if (!room) return;
  const janus = new JanusCall(room, config.participant, config.codec, connectionsOf(call), connectionTo);
  janusCalls.set(call, janus);
  janus.join();
}

function connectionsOf(call) {
  return config.connections.filter((about) => about.call === call);
}

async function receive(message) {
  if (message.type === "present") await meet(message.call, message.participants);
  else if (message.type === "published") await subscribe(message.connections);
  else if (message.type === "gone") await part(message.call, message.from);
  else await receiveFrom(message);
}

// A page that joins calls the participants that are present, and they answer. So two pages never call each other at
// once. But a page that forwards media always makes the call itself, because it must receive the media first.
async function meet(call, present) {
  for (const about of connectionsOf(call)) {
    if (about.server === "janus" || about.number in config.resources) continue;
    if (about.server) {
      if (about.forwards === null) await connectionTo(about).call();
    } else if (!present.includes(about.peer)) {
      continue;
    } else if (about.passesOn) {
      passOn(about);
    } else if (about.forwards === null) {
      await connectionTo(about).call();
    } else {
      send(about, { ready: true });
    }
  }
}

async function subscribe(published) {
  for (const about of config.connections) {
    if (about.number in config.resources) continue;
    if (about.server === "str0m" && published.includes(about.forwards) && !connections.has(about.number)) {
      await connectionTo(about).call();
    }
  }
}

async function part(call, participant) {
  for (const about of connectionsOf(call)) {
    if (about.peer === participant || about.feed === participant) await close(about.number);
  }
}

async function close(number) {
  resources.get(number)?.close();
  resources.delete(number);
  const connection = connections.get(number);
  connections.delete(number);
  await connection?.reportStats();
  connection?.close();
}

async function receiveFrom({ number, ready, error, ...message }) {
  const about = config.connections.find((one) => one.number === number);
  if (error) report("event", { event: "failed", number, detail: error });
  else if (ready) passOn(about);
  else await connectionTo(about).receive(message);
}

// Forwards the tracks that another connection receives, as soon as they arrive.
async function passOn(about) {
  if (connections.has(about.number)) return;
  const source = connectionTo(config.connections.find((one) => one.number === about.forwards));
  const media = await source.media();
  if (!connections.has(about.number)) await connectionTo(about, media).call();
}

function send(about, message) {
  signalling.send(JSON.stringify({ to: about.peer, number: about.number, ...message }));
}

function connectionTo(about, media = camera) {
  if (!connections.has(about.number)) {
    connections.set(about.number, new Connection(about, config, media, (message) => send(about, message)));
  }
  return connections.get(about.number);
}

async function reportStats() {
  await Promise.all([...connections.values()].map((connection) => connection.reportStats()));
}

// A call ends while the participant stays.
async function leaveCall({ call }) {
  for (const about of connectionsOf(call)) await close(about.number);
  janusCalls.get(call)?.leave();
}

// Makes the last report. Media continue until the page is closed or told to leave.
async function finish() {
  clearInterval(statsTimer);
  for (const resource of resources.values()) resource.finish();
  await reportStats();
  report("event", { event: "left" });
  report("bye", {});
}

async function leave() {
  await finish();
  for (const resource of resources.values()) resource.close();
  for (const connection of connections.values()) connection.close();
  for (const janus of janusCalls.values()) janus.leave();
  camera.getTracks().forEach((track) => track.stop());
  signalling?.close();
  show("left");
}

// The session is over. The camera of an invited person must not stay on.
function closed() {
  for (const connection of connections.values()) connection.close();
  camera?.getTracks().forEach((track) => track.stop());
  signalling?.close();
  show("over");
}

reportErrors();
openReportSocket({ configure: prepare, clock: tellTime, join, joinCall, leaveCall, finish, leave, closed });
