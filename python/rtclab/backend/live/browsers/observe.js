// Observes the peer connections of a page that knows nothing of it. The browser runs this function in every document,
// before the scripts of the page. `report` takes a text; `asked` is the name of an event that asks for a last report.
// The page keeps its own class of connections and its own objects: nothing is wrapped but the constructor.
(report, asked) => {
  const Native = globalThis.RTCPeerConnection;
  if (!Native) return;
  const STATS_INTERVAL_MS = 1000;
  const LOOK_INTERVAL_MS = 250;
  const LOOK_SOON_MS = 20;
  const SOON_MS = 5000;
  const STREAMS = ["outbound-rtp", "inbound-rtp", "remote-inbound-rtp"];
  // The page may replace these later.
  const { setInterval, setTimeout, clearInterval, JSON, MediaStream } = globalThis;
  const { stringify } = JSON;
  const { construct } = Reflect;
  const getStats = Native.prototype.getStats;
  const page = Math.random().toString(36).slice(2);
  const connections = [];
  const tracks = new Map(); // remote video tracks, by id: their connection
  const observed = new WeakMap(); // elements, and the track that they show
  let timer;

  const { timeOrigin } = performance;
  const now = performance.now.bind(performance);
  const wallClock = (at = now()) => timeOrigin + at;
  const say = (type, fields) => report(stringify({ type, at_ms: wallClock(), page, ...fields }));

  class Observed {
    constructor(pc, number) {
      this.pc = pc;
      this.number = number;
      this.seen = new Set();
      this.frames = {};
      const on = (event, listener) => pc.addEventListener(event, listener);
      on("signalingstatechange", () => this.signallingChanged());
      on("iceconnectionstatechange", () => this.iceChanged());
      on("connectionstatechange", () => pc.connectionState === "connected" && this.once("dtls_connected"));
      on("track", ({ track }) => this.trackCame(track));
      say("connection", { number });
    }

    event(event, detail = "") {
      say("event", { number: this.number, event, detail });
    }

    once(event) {
      if (!this.seen.has(event)) this.event(event);
      this.seen.add(event);
    }

    signallingChanged() {
      const { pc } = this;
      if (pc.signalingState !== "stable" || !pc.currentRemoteDescription) return;
      if (this.seen.has("signalling_done")) this.event("renegotiated");
      this.once("signalling_done");
      this.sayPayloadTypes();
    }

    iceChanged() {
      const state = this.pc.iceConnectionState;
      if (state === "connected" || state === "completed") this.once("ice_connected");
      if (state === "failed") this.event("ice_failed");
    }

    trackCame(track) {
      if (track.kind !== "video") return;
      tracks.set(track.id, this);
      const soon = setInterval(lookForElements, LOOK_SOON_MS);
      setTimeout(() => clearInterval(soon), SOON_MS);
    }

    sayPayloadTypes() {
      const codecs = {};
      const kinds = {};
      for (const { sdp } of [this.pc.currentLocalDescription, this.pc.currentRemoteDescription]) {
        let kind = "";
        for (const line of sdp.split(/\r?\n/)) {
          kind = /^m=(\w+)/.exec(line)?.[1] ?? kind;
          const [, payloadType, codec] = /^a=rtpmap:(\d+) ([^/]+)/.exec(line) ?? [];
          if (payloadType) [codecs[payloadType], kinds[payloadType]] = [codec, kind];
        }
      }
      say("payload_types", { number: this.number, codecs, kinds });
    }

    async sayStats() {
      if (this.closed) return;
      this.closed = this.pc.signalingState === "closed";
      if (this.closed) return this.event("closed");
      const stats = await getStats.call(this.pc);
      const entries = [...stats.values()];
      const reports = entries
        .filter(({ type }) => STREAMS.includes(type))
        .map((entry) => ({ ...entry, mimeType: stats.get(entry.codecId)?.mimeType ?? null, ...playout(entry, stats) }));
      const pairs = selectedPairs(stats, entries);
      const end = (id) => {
        const { address = null, port = null, candidateType = null } = stats.get(id) ?? {};
        return { address, port, candidateType };
      };
      const selected = pairs.map((pair) => ({ local: end(pair.localCandidateId), remote: end(pair.remoteCandidateId) }));
      const { frames } = this;
      this.frames = {};
      say("stats", { number: this.number, at_ms: entries[0]?.timestamp ?? wallClock(), reports: [...reports, ...pairs], selected, frames });
    }

    shown(track, metadata) {
      this.once("first_frame");
      const clock = (time) => (time === undefined ? null : wallClock(time));
      const { rtpTimestamp = null, captureTime, receiveTime, expectedDisplayTime, width, height } = metadata;
      const { processingDuration, presentationTime } = metadata;
      const decoding = processingDuration === undefined ? null : 1000 * processingDuration;
      const row = [rtpTimestamp, clock(captureTime), clock(receiveTime), clock(expectedDisplayTime), width, height];
      row.push(decoding, Math.max(0, expectedDisplayTime - presentationTime));
      (this.frames[track] ??= []).push(row);
    }
  }

  function playout({ playoutId }, stats) {
    const { totalPlayoutDelay, totalSamplesCount } = stats.get(playoutId) ?? {};
    return { totalPlayoutDelay, totalSamplesCount };
  }

  // With the messages of RFC 8888, which transports count. Firefox has no reports of type `transport`, but marks the
  // pairs that it uses.
  function selectedPairs(stats, entries) {
    const transports = entries.filter(({ type }) => type === "transport");
    const chosen = transports.flatMap(({ selectedCandidatePairId, ccfbMessagesReceived }) => {
      const pair = stats.get(selectedCandidatePairId);
      return pair ? [ccfbMessagesReceived === undefined ? pair : { ...pair, ccfbMessagesReceived }] : [];
    });
    return chosen.length ? chosen : entries.filter((entry) => entry.type === "candidate-pair" && entry.selected);
  }

  function trackIn(element) {
    const stream = element.srcObject;
    const track = stream instanceof MediaStream ? stream.getVideoTracks()[0] : undefined;
    return tracks.has(track?.id) ? track.id : undefined;
  }

  function lookForElements() {
    const roots = [document];
    for (const root of roots) {
      for (const element of root.querySelectorAll("*")) if (element.shadowRoot) roots.push(element.shadowRoot);
      for (const element of root.querySelectorAll("video")) observe(element);
    }
  }

  function observe(element) {
    if (observed.get(element) || !trackIn(element) || !element.requestVideoFrameCallback) return;
    observed.set(element, true);
    const onFrame = (_, metadata) => {
      const track = trackIn(element);
      observed.set(element, track !== undefined);
      if (track === undefined) return;
      tracks.get(track).shown(track, metadata);
      element.requestVideoFrameCallback(onFrame);
    };
    element.requestVideoFrameCallback(onFrame);
  }

  const sayAll = () => Promise.allSettled(connections.map((connection) => connection.sayStats()));

  function begin() {
    timer = setInterval(() => {
      say("alive", {});
      sayAll();
    }, STATS_INTERVAL_MS);
    setInterval(lookForElements, LOOK_INTERVAL_MS);
  }

  const Observing = new Proxy(Native, {
    construct(target, given, newTarget) {
      const pc = construct(target, given, newTarget === Observing ? target : newTarget);
      try {
        connections.push(new Observed(pc, connections.length));
        if (timer === undefined) begin();
      } catch {
        // A page that has replaced what is used here spoils its statistics, but not its calls.
      }
      return pc;
    },
  });
  Native.prototype.constructor = Observing;
  globalThis.RTCPeerConnection = Observing;
  if (globalThis.webkitRTCPeerConnection) globalThis.webkitRTCPeerConnection = Observing;
  addEventListener(asked, async () => {
    await sayAll();
    say("finished", {});
  });
}
