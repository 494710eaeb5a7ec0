//! Runs the unchanged walrus-client over /ws: send, stream, and errors. .ci/full builds it
//! with the client of a copy of openwalrus/walrus, which CRABMEM_WALRUS names.
//!
//! Arguments: the URL of /ws, and a key. The model is scripted; see .ci/full.

use anyhow::{Result, ensure};
use futures_util::{StreamExt, pin_mut};
use protocol::{ClientMessage, ServerMessage};
use walrus_client::{ClientConfig, Connection, WalrusClient};

fn send(content: &str) -> ClientMessage {
    ClientMessage::Send { agent: "crab".into(), content: content.into() }
}

/// Returns the text of a streamed response, or the code of its error.
async fn stream(c: &mut Connection, agent: &str, content: &str) -> Result<Result<String, u16>> {
    let messages = c.stream(ClientMessage::Stream { agent: agent.into(), content: content.into() });
    pin_mut!(messages);
    let (mut text, mut code) = (String::new(), 0);
    while let Some(m) = messages.next().await {
        match m? {
            ServerMessage::StreamStart { agent } => ensure!(agent == "crab", "stream of {agent}"),
            ServerMessage::StreamChunk { content } => text += &content,
            ServerMessage::Error { code: c, .. } => code = c,
            other => anyhow::bail!("in a stream: {other:?}"),
        }
    }
    Ok(if code == 0 { Ok(text) } else { Err(code) })
}

async fn response(c: &mut Connection, content: &str, want: &str) -> Result<()> {
    match c.send(send(content)).await? {
        ServerMessage::Response { agent, content } => ensure!(agent == "crab" && content == want, "{content:?}, want {want:?}"),
        other => anyhow::bail!("want a response: {other:?}"),
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let client = WalrusClient::new(ClientConfig { gateway_url: args[1].as_str().into(), auth_token: None });

    let mut wrong = client.connect().await?;
    let refused = wrong.authenticate("wrong").await.unwrap_err().to_string();
    ensure!(refused.contains("authentication failed (401)"), "a wrong key: {refused}");
    let early = wrong.send(send("greet me")).await?;
    ensure!(matches!(early, ServerMessage::Error { code: 401, .. }), "without a key: {early:?}");
    wrong.close().await?;

    let mut c = client.connect().await?;
    let session = c.authenticate(&args[2]).await?;
    ensure!(session == "api:walrus", "session {session}");
    ensure!(matches!(c.send(ClientMessage::Ping).await?, ServerMessage::Pong));
    response(&mut c, "greet me", "hello from the script").await?;
    let drink = stream(&mut c, "crab", "what do I drink").await?;
    ensure!(drink == Ok("let me look\ntea".into()), "a stream with thinking and a tool: {drink:?}");
    let failed = stream(&mut c, "crab", "too fast").await?;
    ensure!(failed == Err(429), "a stream that fails: {failed:?}");
    response(&mut c, "greet me", "hello from the script").await?; // no frame of the failed stream follows
    let missing = stream(&mut c, "nobody", "greet me").await?;
    ensure!(missing == Err(404), "a missing agent: {missing:?}");
    let failed = c.send(send("too fast")).await?;
    ensure!(matches!(failed, ServerMessage::Error { code: 429, .. }), "a message that fails: {failed:?}");
    let cleared = c.send(ClientMessage::ClearSession { agent: "crab".into() }).await?;
    ensure!(matches!(cleared, ServerMessage::SessionCleared { .. }), "{cleared:?}");
    let again = stream(&mut c, "crab", "greet me").await?;
    ensure!(again == Ok("hello from the script".into()), "after clear_session: {again:?}");
    c.close().await?;
    println!("12 exchanges");
    Ok(())
}
