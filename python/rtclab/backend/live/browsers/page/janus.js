// The room of a call on a Janus server, over Janus' WebSocket API and the API of its plugin VideoRoom
// (https://janus.conf.meetecho.com/docs/rest.html and …/docs/videoroom.html, Janus 1.1.2).
//
// A *handle* is one peer connection: one for what the participant publishes, and one for each subscription. Janus
// sends all its candidates with its description; the page's own go through `trickle`.

const KEEPALIVE_MS = 25000; // Janus ends sessions without requests after 60 s
const PLUGIN = "janus.plugin.videoroom";

export class JanusRoom {
  // `settings` are the server's for the room: {url, apiSecret, room, pin}. Others see `participant` as the name of the
  // feed.
  constructor(settings, participant) {
    this.settings = settings;
    this.participant = participant;
    this.waiting = new Map(); // by transaction: {resolve, reject, message}
    this.feeds = new Set(); // ids of the publishers that were called back
    this.publisherCallback = () => {};
    this.errorCallback = () => {};
  }

  // Calls back with (participant, feedId) for each other publisher, including publishers that joined earlier.
  onPublisher(callback) {
    this.publisherCallback = callback;
  }

  // Calls back with a reason when the connection to Janus is lost.
  onError(callback) {
    this.errorCallback = callback;
  }

  // Enters the room, without publishing anything yet.
  async join() {
    await this.open();
    this.session = (await this.request({ janus: "create" })).data.id;
    this.keepalive = setInterval(() => this.send({ janus: "keepalive", transaction: "keepalive" }), KEEPALIVE_MS);
    this.publisher = await this.attach();
    const { data } = await this.message(this.publisher, {
      request: "join", ptype: "publisher", room: this.settings.room, pin: this.settings.pin, display: this.participant,
    });
    this.addPublishers(data.publishers);
  }

  // Sends the offer of the participant's media and returns the answer. `videoCodec`, such as "vp9", asks for one
  // of the room's codecs; otherwise Janus takes the first in its own order that the offer has.
  async publish(offer, videoCodec) {
    const body = { request: "publish", ...(videoCodec && { videocodec: videoCodec }) };
    return (await this.message(this.publisher, body, offer)).jsep;
  }

  // Subscribes to all that a feed publishes. Returns Janus' offer and the handle for `start` and `trickle`.
  async subscribe(feedId) {
    const handle = await this.attach();
    const { room, pin } = this.settings;
    const streams = [{ feed: feedId }];
    const { jsep } = await this.message(handle, { request: "join", ptype: "subscriber", room, pin, streams });
    return { handle, offer: jsep };
  }

  // Sends the answer to the offer of a subscription. Media follow.
  async start(handle, answer) {
    await this.message(handle, { request: "start" }, answer);
  }

  // Sends one of the page's candidates, or null after the last one.
  async trickle(handle, candidate) {
    await this.request({ janus: "trickle", handle_id: handle, candidate: candidate ?? { completed: true } });
  }

  // Leaves the room and ends everything on the server.
  async leave() {
    clearInterval(this.keepalive);
    this.leaving = true;
    if (this.socket?.readyState === WebSocket.OPEN) await this.request({ janus: "destroy" });
    this.socket?.close();
  }

  open() {
    this.socket = new WebSocket(this.settings.url, "janus-protocol");
    this.socket.onmessage = ({ data }) => this.receive(JSON.parse(data));
    this.socket.onclose = () => this.lost();
    return new Promise((resolve, reject) => {
      this.socket.onopen = resolve;
      this.socket.onerror = () => reject(new Error(`no Janus at ${this.settings.url}`));
    });
  }

  lost() {
    clearInterval(this.keepalive);
    const reason = `Janus at ${this.settings.url} closed the connection`;
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
    if (!this.leaving) this.errorCallback(reason);
  }

  send(message) {
    const session = this.session && { session_id: this.session };
    this.socket.send(JSON.stringify({ apisecret: this.settings.apiSecret, ...session, ...message }));
  }

  request(message) {
    const transaction = crypto.randomUUID();
    const reply = new Promise((resolve, reject) => this.waiting.set(transaction, { resolve, reject, message }));
    this.send({ transaction, ...message });
    return reply;
  }

  // Sends a request to the plugin. Returns the `data` and `jsep` of its answer.
  async message(handle, body, jsep) {
    const description = jsep && { jsep: { type: jsep.type, sdp: jsep.sdp } };
    const event = await this.request({ janus: "message", handle_id: handle, body, ...description });
    return { data: event.plugindata.data, jsep: event.jsep };
  }

  async attach() {
    return (await this.request({ janus: "attach", plugin: PLUGIN })).data.id;
  }

  receive(message) {
    const data = message.plugindata?.data ?? {};
    if (this.waiting.has(message.transaction)) this.settle(message, message.error ?? (data.error && { reason: data.error }));
    else if (data.publishers) this.addPublishers(data.publishers);
    else if (message.janus === "timeout") this.errorCallback("Janus ended the session, because it heard nothing from the page");
  }

  settle(reply, error) {
    const { resolve, reject, message } = this.waiting.get(reply.transaction);
    // The answer to a message is an event, which follows the acknowledgement.
    if (reply.janus === "ack" && message.janus === "message") return;
    this.waiting.delete(reply.transaction);
    if (error) reject(new Error(`Janus refused ${message.body?.request ?? message.janus}: ${error.reason}`));
    else resolve(reply);
  }

  addPublishers(publishers) {
    for (const { id, display } of publishers) {
      if (this.feeds.has(id)) continue;
      this.feeds.add(id);
      this.publisherCallback(display, id);
    }
  }
}
