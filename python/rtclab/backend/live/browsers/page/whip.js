// Connections over WHIP (RFC 9725) and WHEP (draft-ietf-wish-whep): an HTTP resource for each.
import { report } from "./report.js";

const ANSWER_MS = 15000; // how long a server may take to answer
const GATHERING_MS = 1000; // how long candidates are waited for; a server without them learns them from checks
const RETRY_MS = 500; // when a player asks again, unless the server says so
const GIVE_UP_MS = 20000; // how long a player asks
const LATE_MS = 5000; // what is missing for this long at the end of the call is an error
const NOT_YET = new Set([404, 409, 503]); // statuses of a publisher who is not there yet

export class HttpResource {
  // `connect` makes the connection that `about` describes.
  constructor(about, { url, token, plays }, connect) {
    this.about = about;
    this.url = url;
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.plays = plays;
    this.connect = connect;
    this.closed = false;
    this.missing = null; // why there is no answer yet
  }

  // Publishes or, once the sender has joined, plays. Nothing is done for somebody who sends nothing.
  async open() {
    const media = this.plays ? this.about.receives : this.about.sends;
    if (!media.video && !media.audio) return;
    if (this.plays) await pause(this.about.waitsMs);
    if (this.closed) return;
    try {
      await this.negotiate(this.connect());
    } catch (error) {
      if (!this.closed) throw error;
    }
  }

  async negotiate(connection) {
    connection.sendsOnly = !this.plays;
    connection.send = () => {}; // description and candidates go together, below
    await connection.call();
    await gathered(connection.pc);
    const answer = await this.ask(connection.feedback(connection.pc.localDescription.sdp));
    if (this.closed) return;
    await connection.receive({ description: { type: "answer", sdp: answer } }).catch((error) => {
      throw new Error(`POST ${this.url} answered with a description that cannot be used: ${error.message}`);
    });
  }

  // Sends the offer until the server has an answer.
  async ask(offer) {
    this.missing = `POST ${this.url}: no answer yet`;
    this.asked = performance.now();
    while (!this.closed) {
      const { response, text } = await this.post(offer);
      if (response.ok) return this.accept(response, text);
      this.missing = `${this.told(response)} ${response.statusText}: ${shown(text)}`;
      const late = performance.now() - this.asked > GIVE_UP_MS;
      if (!this.plays || !NOT_YET.has(response.status) || late) throw new Error(this.missing);
      await pause(1000 * Number(response.headers.get("Retry-After")) || RETRY_MS);
    }
    return null;
  }

  async post(offer) {
    const headers = { ...this.headers, "Content-Type": "application/sdp" };
    const signal = AbortSignal.timeout(ANSWER_MS);
    try {
      const response = await fetch(this.url, { method: "POST", headers, body: offer, signal });
      return { response, text: await response.text() };
    } catch (error) {
      if (error.name === "TimeoutError") throw new Error(`POST ${this.url}: no answer within ${ANSWER_MS / 1000} s`);
      // Browsers do not tell pages more than that (https://fetch.spec.whatwg.org/#concept-network-error).
      throw new Error(
        `POST ${this.url}: ${error.message}; expected a server that accepts connections, and that allows ` +
          `${location.origin} to make requests and read responses (CORS)`,
      );
    }
  }

  accept(response, text) {
    this.missing = null;
    // Both the URL and the address of the session may be another server's.
    const place = response.headers.get("Location");
    this.session = place && new URL(place, response.url);
    if (this.closed) this.hangUp();
    if (text.startsWith("v=0")) return text;
    throw new Error(`${this.told(response)} with "${shown(text)}"; expected a session description`);
  }

  // A redirection with status 301, 302 or 303 makes browsers GET the new address.
  told({ redirected, status, url }) {
    return `POST ${this.url}${redirected ? `, redirected to ${url},` : ""} answered ${status}`;
  }

  hangUp() {
    if (!this.session) return; // a server without sessions, or without their addresses for other origins
    fetch(this.session, { method: "DELETE", headers: this.headers, keepalive: true }).catch(() => {});
  }

  // To be called at the end of the call.
  finish() {
    const late = performance.now() - this.asked > LATE_MS;
    if (this.missing && late) report("event", { event: "page_error", number: this.about.number, detail: this.missing });
  }

  close() {
    this.closed = true;
    this.hangUp();
  }
}

// The beginning of what a server said, on one line and without control characters.
function shown(text) {
  return text.slice(0, 200).replace(/[\s\p{C}]+/gu, " ").trim();
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

// Resolves when all candidates are in the local description, or after a while.
function gathered(pc) {
  const complete = new Promise((resolve) => {
    const check = () => pc.iceGatheringState === "complete" && resolve();
    pc.addEventListener("icegatheringstatechange", check);
    check();
  });
  return Promise.race([complete, pause(GATHERING_MS)]);
}
