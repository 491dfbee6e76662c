// A call over a Janus server: one connection for what this page sends, and one for each participant that it receives.
import { JanusRoom } from "./janus.js";
import { report } from "./report.js";

export class JanusCall {
  // `abouts` are the connections of this page in the call, and `connectionTo` makes one of them.
  constructor(settings, participant, codec, abouts, connectionTo) {
    this.room = new JanusRoom(settings, participant);
    this.codec = codec;
    this.abouts = abouts;
    this.connectionTo = connectionTo;
  }

  async join() {
    this.room.onPublisher((participant, feed) => this.subscribe(participant, feed));
    this.room.onError((detail) => report("event", { event: "failed", detail }));
    await this.room.join();
    for (const about of this.abouts.filter(({ forwards }) => forwards === null)) await this.publish(about);
  }

  // Janus refuses an offer without media, which has no BUNDLE group.
  async publish(about) {
    if (!about.sends.audio && !about.sends.video) return;
    const connection = this.connectionTo(about);
    connection.send = async ({ description, candidate }) => {
      if (candidate) await this.room.trickle(this.room.publisher, candidate);
      else await connection.receive({ description: await this.room.publish(description, this.codec) });
    };
    await connection.call();
  }

  async subscribe(participant, feed) {
    const about = this.abouts.find(({ forwards, feed: name }) => forwards !== null && name === participant);
    if (!about) return;
    const connection = this.connectionTo(about);
    const { handle, offer } = await this.room.subscribe(feed);
    connection.send = async ({ description, candidate }) => {
      if (candidate) await this.room.trickle(handle, candidate);
      else await this.room.start(handle, description);
    };
    await connection.receive({ description: offer });
  }

  leave() {
    return this.room.leave();
  }
}
