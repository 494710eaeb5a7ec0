// An agent over the public library of the Agent Client Protocol, whose directory is the
// argument. It asks for permission, says which option it got, and waits for a cancel if
// the task has the word wait.
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const library = `${process.argv[2]}/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js`;
const acp = await import(pathToFileURL(library));
const { agent, client } = acp.methods;
let cancelled = () => {};

acp.agent({ name: "test" })
  .onRequest(agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: { loadSession: false } }))
  .onRequest(agent.session.new, () => ({ sessionId: "s1" }))
  .onRequest(agent.session.prompt, async ({ params, client: peer }) => {
    const { sessionId, prompt: [{ text: task }] } = params;
    const update = (fields) => peer.notify(client.session.update, { sessionId, update: fields });
    await update({ sessionUpdate: "tool_call", toolCallId: "c1", title: "run the tests", kind: "execute", status: "pending" });
    const { outcome } = await peer.request(client.session.requestPermission, {
      sessionId, toolCall: { toolCallId: "c1", title: "run the tests" },
      options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }, { optionId: "no", name: "No", kind: "reject_once" }],
    });
    const read = await peer.request(client.fs.readTextFile, { sessionId, path: "/etc/hostname" }).then(() => "files", (e) => `error ${e.code}`);
    await update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${task}: ${outcome.optionId}, ${read}` } });
    if (task.includes("wait")) {
      const end = new Promise((resolve) => { cancelled = resolve; });
      await update({ sessionUpdate: "tool_call_update", toolCallId: "c1", title: "waiting", status: "in_progress" });
      await end;
      return { stopReason: "cancelled" };
    }
    return { stopReason: task.includes("limit") ? "max_tokens" : "end_turn" };
  })
  .onNotification(agent.session.cancel, () => cancelled())
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
