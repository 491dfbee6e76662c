// One connection to the other participant, by perfect negotiation, with an encoded transform on each track.
"use strict";

const parameters = new URLSearchParams(location.search);
const me = parameters.get("me");
const began = performance.now();
const log = { done: false, events: [], stats: [], messages: 0, transformed: { sent: 0, received: 0 }, browser: seen() };

// What a page can find out about the browser's objects.
function seen() {
  const { prototype } = RTCPeerConnection;
  return {
    globals: Object.getOwnPropertyNames(window).sort(),
    name: RTCPeerConnection.name,
    length: RTCPeerConnection.length,
    statics: Object.getOwnPropertyNames(RTCPeerConnection).sort(),
    methods: Object.getOwnPropertyNames(prototype).sort(),
    same: prototype.constructor === RTCPeerConnection,
    native: [RTCPeerConnection, prototype.getStats, WebSocket].map((one) => String(one).includes("[native code]")),
  };
}

function note(what) {
  log.events.push([Math.round(performance.now() - began), what]);
}

class Call {
  constructor(room) {
    this.room = room;
    const scripted = "RTCRtpScriptTransform" in window;
    this.pc = new RTCPeerConnection(scripted ? {} : { encodedInsertableStreams: true });
    if (!(this.pc instanceof RTCPeerConnection)) note("no RTCPeerConnection");
    this.worker = new Worker("transform.js");
    this.worker.onmessage = ({ data }) => (log.transformed[data.side] = data.frames);
    this.scripted = scripted;
    this.transformed = new Set();
    this.making = false;
    this.pc.onnegotiationneeded = () => this.offer();
    this.pc.onicecandidate = ({ candidate }) => candidate && this.send({ candidate });
    this.called = new Promise((done) => this.pc.addEventListener("track", done, { once: true }));
    this.pc.ontrack = ({ track, transceiver }) => {
      note(`${room}: track ${track.kind}`);
      this.transform(transceiver);
      const player = document.createElement(track.kind);
      player.autoplay = true;
      player.muted = true;
      player.srcObject = new MediaStream([track]);
      document.body.append(player);
    };
    this.pc.onsignalingstatechange = () => note(`${room}: ${this.pc.signalingState}`);
    this.pc.addEventListener("connectionstatechange", () => note(`${room}: ${this.pc.connectionState}`));
    this.socket = new WebSocket(`ws://${location.host}/relay/${room}/${me}`);
    this.open = new Promise((done) => (this.socket.onopen = done));
    this.inbox = Promise.resolve();
    this.socket.onmessage = ({ data }) =>
      (this.inbox = this.inbox.then(() => this.receive(JSON.parse(data))).catch((error) => note(`${room}: ${error}`)));
  }

  // Chromium ignores a transform that is set when the transceiver has been negotiated.
  transform(transceiver) {
    if (this.transformed.has(transceiver)) return;
    this.transformed.add(transceiver);
    for (const [half, side] of [[transceiver.sender, "sent"], [transceiver.receiver, "received"]]) {
      if (this.scripted) {
        half.transform = new RTCRtpScriptTransform(this.worker, { side });
      } else {
        const { readable, writable } = half.createEncodedStreams();
        this.worker.postMessage({ side, readable, writable }, [readable, writable]);
      }
    }
  }

  add(track) {
    const sender = this.pc.addTrack(track, new MediaStream([track]));
    this.transform(this.pc.getTransceivers().find((one) => one.sender === sender));
    return sender;
  }

  async send(message) {
    await this.open;
    this.socket.send(JSON.stringify(message));
  }

  async offer() {
    this.making = true;
    try {
      await this.pc.setLocalDescription();
      await this.send({ description: this.pc.localDescription });
    } finally {
      this.making = false;
    }
  }

  async receive({ description, candidate }) {
    if (description) {
      const collision = description.type === "offer" && (this.making || this.pc.signalingState !== "stable");
      this.ignoring = collision && me !== "alice"; // alice is polite
      if (this.ignoring) return;
      await this.pc.setRemoteDescription(description);
      if (description.type === "offer") {
        await this.pc.setLocalDescription();
        await this.send({ description: this.pc.localDescription });
      }
    } else {
      await this.pc.addIceCandidate(candidate).catch((error) => {
        if (!this.ignoring) throw error;
      });
    }
  }

  async stats() {
    const rows = [];
    for (const entry of (await this.pc.getStats()).values()) {
      if (!["inbound-rtp", "outbound-rtp", "data-channel"].includes(entry.type)) continue;
      rows.push(
        Object.fromEntries(
          ["type", "timestamp", "kind", "ssrc", "mid", "bytesSent", "bytesReceived", "packetsSent", "packetsReceived",
           "packetsLost", "framesEncoded", "framesDecoded", "frameWidth", "messagesReceived"]
            .filter((name) => name in entry)
            .map((name) => [name, entry[name]]),
        ),
      );
    }
    return rows;
  }
}

function report(name, calls) {
  setInterval(async () => {
    const at = Math.round(performance.now() - began);
    for (const call of calls) log.stats.push({ at, room: call.room, rows: await call.stats() });
    document.querySelector("#log").textContent = JSON.stringify(log);
    await fetch(`/log/${name}`, { method: "POST", body: JSON.stringify(log) });
  }, 1000);
}

const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// A moving picture that is not the camera.
function drawing() {
  const canvas = document.createElement("canvas");
  canvas.width = 160;
  canvas.height = 120;
  const context = canvas.getContext("2d");
  let step = 0;
  setInterval(() => {
    context.fillStyle = `hsl(${(step += 7) % 360} 80% 50%)`;
    context.fillRect((step * 3) % 160, (step * 2) % 120, 40, 40);
  }, 100);
  return canvas.captureStream(10).getVideoTracks()[0];
}
