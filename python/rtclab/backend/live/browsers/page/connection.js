// One peer connection: negotiation, timings, statistics and received frames.
import { Adapter } from "./adapt.js";
import { chooseCodec, preferCodec, simulcastEncodings, withReferences, withoutTransportFeedback } from "./codecs.js";
import { report, wallClock } from "./report.js";

const STATS_TYPES = new Set(["outbound-rtp", "inbound-rtp", "remote-inbound-rtp"]);

export class Connection {
  // `about` describes the connection and its media, `media` is what this page sends, and `send` passes a description
  // or candidate to the other end.
  constructor(about, config, media, send) {
    this.about = about;
    this.config = config;
    this.sent = media;
    this.send = send;
    this.frames = [];
    this.seen = new Set(); // each event of the set-up is reported once
    this.candidates = []; // remote candidates that arrived before the description
    this.received = new MediaStream(); // all tracks of the other end
    this.sendsOnly = false; // whether the offer says so
    const { servers, policy } = config.ice[about.number];
    this.pc = new RTCPeerConnection({ bundlePolicy: "max-bundle", iceServers: servers, iceTransportPolicy: policy });
    this.pc.onicecandidate = ({ candidate }) => candidate && this.send({ candidate });
    this.pc.oniceconnectionstatechange = () => this.iceChanged();
    this.pc.onconnectionstatechange = () => this.pc.connectionState === "connected" && this.once("dtls_connected");
    this.pc.ontrack = ({ track, streams }) => this.receiveTrack(track, streams[0] ?? new MediaStream([track]));
    report("connection", { number: about.number });
  }

  once(event, detail = "") {
    if (this.seen.has(event)) return;
    this.seen.add(event);
    report("event", { event, number: this.about.number, detail });
  }

  iceChanged() {
    const state = this.pc.iceConnectionState;
    if (state === "connected" || state === "completed") this.once("ice_connected");
    if (state === "failed") report("event", { event: "failed", number: this.about.number, detail: "ICE failed" });
  }

  // Resolves with the received media once there is a track of each kind that the other end sends.
  media() {
    this.complete ??= new Promise((resolve) => (this.resolveMedia = resolve));
    this.checkMedia();
    return this.complete;
  }

  checkMedia() {
    const { video, audio } = this.about.receives;
    const has = this.received.getVideoTracks().length >= video && this.received.getAudioTracks().length >= audio;
    if (has) this.resolveMedia?.(this.received);
  }

  async call() {
    this.addTracks();
    if (this.sendsOnly) this.pc.getTransceivers().forEach((transceiver) => (transceiver.direction = "sendonly"));
    for (const kind of ["audio", "video"]) {
      // Ask to receive a kind that only the other end sends.
      if (this.about.receives[kind] && !this.about.sends[kind]) this.pc.addTransceiver(kind, { direction: "recvonly" });
    }
    this.preferCodec();
    await this.pc.setLocalDescription();
    this.sendDescription();
  }

  async receive({ description, candidate }) {
    if (candidate) {
      if (this.pc.remoteDescription) await this.pc.addIceCandidate(candidate);
      else this.candidates.push(candidate);
      return;
    }
    if (description.type === "answer") this.once("signalling_done");
    const sdp = withFormats(this.feedback(description.sdp), this.config.formats);
    await this.pc.setRemoteDescription({ type: description.type, sdp });
    if (description.type === "offer") {
      this.addTracks();
      this.preferCodec();
      await this.pc.setLocalDescription();
      this.sendDescription();
      this.once("signalling_done");
    }
    for (const early of this.candidates.splice(0)) await this.pc.addIceCandidate(early);
    await this.limitVideo();
    this.reportPayloadTypes();
  }

  sendDescription() {
    const { type, sdp } = this.pc.localDescription;
    this.send({ description: { type, sdp: this.feedback(sdp) } });
  }

  // Neither end uses transport-wide feedback if it is missing in the description from the other end.
  feedback(sdp) {
    return this.config.transportFeedback ? sdp : withoutTransportFeedback(sdp);
  }

  addTracks() {
    for (const track of this.sent.getTracks()) {
      if (!this.about.sends[track.kind]) continue;
      if (track.kind === "video" && this.about.server && this.config.video?.layers.length) {
        const sendEncodings = simulcastEncodings(this.config.video);
        this.pc.addTransceiver(track, { direction: "sendonly", streams: [this.sent], sendEncodings });
      } else {
        this.pc.addTrack(track, this.sent);
      }
    }
  }

  preferCodec() {
    preferCodec(this.pc.getTransceivers(), this.config.codec, { fec: this.config.fec, other: this.about.codec });
  }

  videoSender() {
    return this.pc.getSenders().find(({ track }) => track?.kind === "video");
  }

  async limitVideo() {
    const video = this.config.video;
    const sender = this.videoSender();
    if (!video || !sender) return;
    // The answerer may send another codec than the offerer prefers.
    const [negotiated] = sender.getParameters().codecs;
    if (negotiated && !isCodec(negotiated.mimeType, this.config.codec)) await chooseCodec(sender, this.config.codec);
    if (video.adapt === "loss") this.adapter ??= new Adapter(sender, video, (type, step) => this.adapted(type, step));
    // A stream of several layers has the bounds of its layers, and without a bound the browser has its own default.
    if (!video.maxBitrate || (this.about.server && video.layers.length)) return;
    const parameters = sender.getParameters();
    for (const encoding of parameters.encodings) encoding.maxBitrate = video.maxBitrate;
    await sender.setParameters(parameters);
  }

  adapted(type, step) {
    report(type, { ...step, number: this.about.number });
  }

  // getStats does not have the payload type of retransmissions.
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
    report("payload_types", { number: this.about.number, codecs, kinds });
  }

  receiveTrack(track, stream) {
    this.received.addTrack(track);
    this.checkMedia();
    // A browser decodes only sound that is played. Sound with video is played with the video.
    if (track.kind === "video" || !this.about.receives.video) this.play(stream);
  }

  play(stream) {
    const video = document.createElement("video");
    video.autoplay = true;
    video.playsInline = true;
    video.width = 160;
    video.srcObject = stream;
    document.getElementById("videos").append(video);
    const onFrame = (now, frame) => {
      this.once("first_frame");
      const clock = (time) => (time === undefined ? null : wallClock(time));
      const milliseconds = (seconds) => (seconds === undefined ? null : 1000 * seconds);
      this.frames.push([
        frame.rtpTimestamp ?? null, clock(frame.captureTime), clock(frame.receiveTime),
        clock(frame.expectedDisplayTime), frame.width, frame.height,
        milliseconds(frame.processingDuration), Math.max(0, frame.expectedDisplayTime - frame.presentationTime),
      ]);
      video.requestVideoFrameCallback(onFrame);
    };
    video.requestVideoFrameCallback(onFrame);
  }

  async reportStats() {
    const stats = await this.pc.getStats();
    const entries = [...stats.values()];
    const at_ms = entries[0]?.timestamp ?? wallClock();
    const pair = selectedPair(stats, entries);
    const reports = entries.filter(({ type }) => STATS_TYPES.has(type)).map((entry) => withReferences(entry, stats));
    if (pair) reports.push(pair);
    const end = (id) => pick(stats.get(id), ["address", "port", "candidateType"]);
    const selected = pair && { local: end(pair.localCandidateId), remote: end(pair.remoteCandidateId) };
    this.adapter?.onStats(this.newLoss(reports));
    this.checkCodec(reports);
    report("stats", { at_ms, number: this.about.number, reports, selected, frames: this.frames.splice(0) });
  }

  // The fraction lost in the receiver's latest report; null if there is none since the last call.
  newLoss(reports) {
    const latest = reports.find(({ type, kind }) => type === "remote-inbound-rtp" && kind === "video");
    if (!latest || latest.timestamp === this.lossReportedAt) return null;
    this.lossReportedAt = latest.timestamp;
    return latest.fractionLost ?? null;
  }

  // The codec must be the scenario's, not another that was negotiated as well.
  checkCodec(reports) {
    const sent = reports.find(({ type, kind, framesEncoded }) => type === "outbound-rtp" && kind === "video" && framesEncoded > 0);
    if (!sent?.mimeType || isCodec(sent.mimeType, this.config.codec)) return;
    this.once("page_error", `the browser sends ${sent.mimeType}; expected ${this.config.codec}`);
  }

  close() {
    this.adapter?.close();
    this.pc.close();
  }
}

function isCodec(mimeType, codec) {
  return mimeType.toLowerCase() === `video/${codec}`;
}

// With the messages of RFC 8888, which the transport counts. Firefox has no report of type `transport`, but marks the
// pair that it uses.
function selectedPair(stats, entries) {
  const transport = entries.find((entry) => entry.type === "transport");
  const pair = stats.get(transport?.selectedCandidatePairId) ?? entries.find((entry) => entry.type === "candidate-pair" && entry.selected);
  const { ccfbMessagesReceived } = transport ?? {};
  return pair && ccfbMessagesReceived !== undefined ? { ...pair, ccfbMessagesReceived } : pair;
}

function pick(report, names) {
  return Object.fromEntries(names.map((name) => [name, report?.[name] ?? null]));
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
