// Codecs of a connection: the offered ones, the one in use, and the feedback in the session description.

const FEC = ["video/red", "video/ulpfec"];

// The codecs to offer, best first: `codec` (such as "vp9"), its retransmissions and, with `fec`, RED and ULPFEC. Null
// means no preference: a plain page has none, and its browser sends VP8 with FEC. `offered` is a list of
// RTCRtpCodec, and `other` the codec of the other end. Throws if the browser has no such codec.
export function preferredCodecs(offered, codec, { fec, other = codec }) {
  const named = (names) => offered.filter(({ mimeType }) => names.includes(mimeType.toLowerCase()));
  const wanted = named([`video/${codec}`]);
  if (!wanted.length) throw new Error(`this browser has no encoder for ${codec}; it offers ${mediaCodecs(offered)}`);
  if (fec && codec === "vp8") return null;
  const received = other === codec ? [] : named([`video/${other}`]);
  return [...wanted, ...received, ...named(["video/rtx"]), ...(fec ? named(FEC) : [])];
}

function mediaCodecs(offered) {
  const names = offered.map(({ mimeType }) => mimeType.slice("video/".length));
  const others = new Set(["rtx", "red", "ulpfec", "flexfec-03"]);
  return [...new Set(names)].filter((name) => !others.has(name.toLowerCase())).join(", ");
}

// States the preference of a connection's video, before its offer or answer is made.
export function preferCodec(transceivers, codec, options) {
  preferredCodecs(RTCRtpSender.getCapabilities("video").codecs, codec, options);
  const codecs = preferredCodecs(RTCRtpReceiver.getCapabilities("video").codecs, codec, options);
  if (!codecs) return;
  for (const transceiver of transceivers) {
    if (transceiver.receiver.track.kind === "video") transceiver.setCodecPreferences(codecs);
  }
}

// Makes one sender use a codec that its connection has negotiated, so that both ends may send different ones.
export async function chooseCodec(sender, codec) {
  const parameters = sender.getParameters();
  const chosen = parameters.codecs.find(({ mimeType }) => mimeType.toLowerCase() === `video/${codec}`);
  if (!chosen) throw new Error(`${codec} was not negotiated; the connection has ${mediaCodecs(parameters.codecs)}`);
  const { mimeType, clockRate, sdpFmtpLine } = chosen;
  for (const encoding of parameters.encodings) {
    encoding.codec = sdpFmtpLine === undefined ? { mimeType, clockRate } : { mimeType, clockRate, sdpFmtpLine };
  }
  await sender.setParameters(parameters);
}

// A session description without transport-wide feedback. If each end gives this to setRemoteDescription, neither
// sends such feedback: the receivers estimate the rate and send REMB. Local descriptions stay as they are.
export function withoutTransportFeedback(sdp) {
  const gone = /^a=(rtcp-fb:\S+ transport-cc|extmap:\d+(\/\w+)? \S*transport-wide-cc\S*)\b.*$/;
  return sdp
    .split("\r\n")
    .filter((line) => !gone.test(line))
    .join("\r\n");
}

// `sendEncodings` of a camera sent in several sizes. `layers` has RID and scale of each. A maximum rate (bit/s) is
// divided in proportion to the pixels.
export function simulcastEncodings({ layers, maxBitrate }) {
  const pixels = ({ scaleResolutionDownBy }) => 1 / scaleResolutionDownBy ** 2;
  const all = layers.reduce((sum, layer) => sum + pixels(layer), 0);
  if (!maxBitrate) return layers;
  return layers.map((layer) => ({ ...layer, maxBitrate: Math.floor((maxBitrate * pixels(layer)) / all) }));
}

// A report of a stream with the MIME type of its codec as `mimeType`, null while it has none, and with what the sound
// output counted.
export function withReferences(report, stats) {
  const { totalPlayoutDelay, totalSamplesCount } = stats.get(report.playoutId) ?? {};
  return { ...report, totalPlayoutDelay, totalSamplesCount, mimeType: stats.get(report.codecId)?.mimeType ?? null };
}
