// Adapts the camera to packet loss, as a page of 2013 would: "those decisions may affect the video size and frames per
// second" is the idea of Abelló Lozano (2013), section 4.2.1, which gives no numbers. The numbers here are our choice.

export const LOWER_ABOVE = 0.1; // fraction lost; libwebrtc's loss-based control reduces its rate above it, too
export const RAISE_BELOW = 0.02;
export const SETTLE_REPORTS = 2; // how many reports a change has to show its effect
export const CALM_REPORTS = 5; // how many reports in a row must be below RAISE_BELOW

const STEPS = [
  { size: 1, rate: 1 },
  { size: 3 / 4, rate: 1 },
  { size: 1 / 2, rate: 1 },
  { size: 1 / 2, rate: 1 / 2 },
  { size: 1 / 4, rate: 1 / 2 },
];

// Decides on the step, without access to the browser.
export class Decision {
  constructor() {
    this.step = 0;
    this.calm = 0;
    this.settling = 0;
  }

  // Takes the fraction lost since the last report (0 to 1; null if nothing was reported). Says if the step changed.
  onLoss(fractionLost) {
    if (fractionLost === null || fractionLost === undefined) return false;
    this.calm = fractionLost < RAISE_BELOW ? this.calm + 1 : 0;
    if (this.settling > 0) this.settling -= 1;
    if (this.settling > 0) return false;
    if (fractionLost > LOWER_ABOVE) return this.move(1);
    return this.calm >= CALM_REPORTS && this.move(-1);
  }

  move(by) {
    const step = Math.min(Math.max(this.step + by, 0), STEPS.length - 1);
    const moved = step !== this.step;
    if (moved) [this.step, this.calm, this.settling] = [step, 0, SETTLE_REPORTS];
    return moved;
  }
}

// Size and frame rate of a step. Encoders need even numbers.
export function pictureAt(step, { width, height, frameRate }) {
  const even = (pixels) => Math.max(2, 2 * Math.round((pixels * STEPS[step].size) / 2));
  return { width: even(width), height: even(height), frameRate: frameRate * STEPS[step].rate };
}

// Adapts one sender's camera. `video` is the configured picture, `report` the report of report.js.
export class Adapter {
  constructor(sender, video, report) {
    this.sender = sender;
    this.video = video;
    this.report = report;
    this.decision = new Decision();
    this.ownTrack = null;
  }

  // To be called once a second with the `fractionLost` of a new remote-inbound-rtp report, or null without one.
  async onStats(fractionLost) {
    if (!this.decision.onLoss(fractionLost)) return;
    const picture = pictureAt(this.decision.step, this.video);
    await this.detach();
    await applyPicture(this.sender, picture, this.video);
    const detail = `${picture.width}x${picture.height}@${picture.frameRate}`;
    this.report("event", { event: "adapted", detail });
  }

  // Gives the sender a track of its own, because constraints would change the camera of all connections.
  async detach() {
    if (this.ownTrack) return;
    this.ownTrack = this.sender.track.clone();
    await this.sender.replaceTrack(this.ownTrack);
  }

  // Releases the camera at the end of the connection.
  close() {
    this.ownTrack?.stop();
  }
}

// Only cameras can be constrained. The stream of an element, which Firefox uses, is scaled in front of the encoder.
async function applyPicture(sender, { width, height, frameRate }, video) {
  const constraints = { width: { exact: width }, height: { exact: height }, frameRate: { max: frameRate } };
  try {
    await sender.track.applyConstraints(constraints);
  } catch (error) {
    if (error.name !== "OverconstrainedError" && error.name !== "NotSupportedError") throw error;
    const parameters = sender.getParameters();
    for (const encoding of parameters.encodings) {
      encoding.scaleResolutionDownBy = video.height / height;
      encoding.maxFramerate = frameRate;
    }
    await sender.setParameters(parameters);
  }
}
