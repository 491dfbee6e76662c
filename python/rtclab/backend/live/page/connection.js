// One peer connection: negotiation, timings, statistics and received frames.
import { report, wallClock } from "./report.js";

const STATS_TYPES = new Set(["outbound-rtp", "inbound-rtp", "remote-inbound-rtp"]);

export class Connection {
  constructor(peer, config, camera, send) {
    this.peer = peer;
    this.config = config;
    this.send = send;
    this.frames = [];
    this.seen = new Set(); // each event of the set-up is reported once
    this.candidates = []; // those that arrived before the description
    this.pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
    this.pc.onicecandidate = ({ candidate }) => candidate && this.send({ candidate });
    this.pc.oniceconnectionstatechange = () => this.iceChanged();
    this.pc.onconnectionstatechange = () => this.pc.connectionState === "connected" && this.once("dtls_connected");
    this.pc.ontrack = ({ track, streams }) => track.kind === "video" && this.play(track, streams[0]);
    this.camera = camera;
    report("connection", { peer });
  }

  once(event, detail = "") {
    if (this.seen.has(event)) return;
    this.seen.add(event);
    report("event", { event, peer: this.peer, detail });
  }

  iceChanged() {
    const state = this.pc.iceConnectionState;
    if (state === "connected" || state === "completed") this.once("ice_connected");
    if (state === "failed") report("event", { event: "failed", peer: this.peer, detail: "ICE failed" });
  }

  async call() {
    this.addTracks();
    for (const kind of ["audio", "video"]) {
      // Ask to receive a kind that only the other participant sends.
      if (!this.config[kind] && this.config.peers[this.peer][kind]) this.pc.addTransceiver(kind, { direction: "recvonly" });
    }
    this.preferCodec();
    await this.pc.setLocalDescription();
    this.send({ description: this.pc.localDescription });
  }

  async receive({ description, candidate }) {
    if (candidate) {
      if (this.pc.remoteDescription) await this.pc.addIceCandidate(candidate);
      else this.candidates.push(candidate);
      return;
    }
    if (description.type === "answer") this.once("signalling_done");
    await this.pc.setRemoteDescription({ type: description.type, sdp: withFormats(description.sdp, this.config.formats) });
    if (description.type === "offer") {
      this.addTracks();
      this.preferCodec();
      await this.pc.setLocalDescription();
      this.send({ description: this.pc.localDescription });
      this.once("signalling_done");
    }
    for (const early of this.candidates.splice(0)) await this.pc.addIceCandidate(early);
    await this.limitVideo();
    this.reportPayloadTypes();
  }

  addTracks() {
    for (const track of this.camera.getTracks()) this.pc.addTrack(track, this.camera);
  }

  // A plain page states no preference, so the browser offers all its codecs, RED and ULPFEC included.
  preferCodec() {
    if (this.config.fec) return;
    const wanted = [`video/${this.config.codec}`, "video/rtx"];
    const codecs = RTCRtpReceiver.getCapabilities("video").codecs.filter((codec) =>
      wanted.includes(codec.mimeType.toLowerCase()),
    );
    for (const transceiver of this.pc.getTransceivers()) {
      if (transceiver.receiver.track.kind === "video") transceiver.setCodecPreferences(codecs);
    }
  }

  async limitVideo() {
    const maxBitrate = this.config.video?.maxBitrate;
    const sender = this.pc.getSenders().find(({ track }) => track?.kind === "video");
    if (!maxBitrate || !sender) return; // the browser's own default
    const parameters = sender.getParameters();
    for (const encoding of parameters.encodings) encoding.maxBitrate = maxBitrate;
    await sender.setParameters(parameters);
  }

  // getStats does not tell the payload type of retransmissions.
  reportPayloadTypes() {
    const codecs = {};
    const kinds = {};
    let kind = "";
    for (const line of this.pc.localDescription.sdp.split(/\r?\n/)) {
      kind = /^m=(\w+)/.exec(line)?.[1] ?? kind;
      const [, payloadType, codec] = /^a=rtpmap:(\d+) ([^/]+)/.exec(line) ?? [];
      if (payloadType) {
        codecs[payloadType] = codec;
        kinds[payloadType] = kind;
      }
    }
    report("payload_types", { peer: this.peer, codecs, kinds });
  }

  play(track, stream) {
    const video = document.createElement("video");
    video.autoplay = true;
    video.playsInline = true;
    video.width = 160;
    video.srcObject = stream;
    document.getElementById("videos").append(video);
    const onFrame = (now, frame) => {
      this.once("first_frame");
      const clock = (time) => (time === undefined ? null : wallClock(time));
      this.frames.push([
        frame.rtpTimestamp, clock(frame.captureTime), clock(frame.receiveTime), clock(frame.expectedDisplayTime),
        frame.width, frame.height,
      ]);
      video.requestVideoFrameCallback(onFrame);
    };
    video.requestVideoFrameCallback(onFrame);
  }

  async reportStats() {
    const stats = await this.pc.getStats();
    const entries = [...stats.values()];
    const at_ms = entries[0]?.timestamp ?? wallClock();
    const pair = stats.get(entries.find((entry) => entry.type === "transport")?.selectedCandidatePairId);
    const reports = entries.filter((entry) => STATS_TYPES.has(entry.type));
    if (pair) reports.push(pair);
    report("stats", { at_ms, peer: this.peer, reports, frames: this.frames.splice(0) });
  }

  close() {
    this.pc.close();
  }
}

// Adds parameters, by codec, to the formats of a remote description: {"opus": "cbr=1"}. The encoder on this side uses
// them.
function withFormats(sdp, formats) {
  for (const [codec, parameters] of Object.entries(formats)) {
    const [, payloadType] = new RegExp(`^a=rtpmap:(\\d+) ${codec}/`, "im").exec(sdp) ?? [];
    const line = new RegExp(`^a=fmtp:${payloadType} .*$`, "m");
    if (payloadType === undefined) continue;
    if (line.test(sdp)) sdp = sdp.replace(line, (found) => `${found.trimEnd()};${parameters}`);
    else sdp = sdp.replace(new RegExp(`^a=rtpmap:${payloadType} .*$`, "m"), (found) => `${found}\r\na=fmtp:${payloadType} ${parameters}`);
  }
  return sdp;
}
