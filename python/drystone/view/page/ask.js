// Requests to the server: JSON, and pictures as numbers.

export class Refused extends Error {
  constructor(message, costs) {
    super(message);
    this.costs = costs; // bytes that the answer would take, if that is the reason
  }
}

let snapshot = null; // the earlier snapshot that is shown; null: the newest

export function lookAt(number) { snapshot = number; }
export function lookedAt() { return snapshot; }

async function send(name, query, signal) {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...query, snapshot })) {
    if (value !== null && value !== undefined && value !== "") given.set(key, value);
  }
  let answer;
  try {
    answer = await fetch(`api/${name}?${given}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer: is it still running?");
  }
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(said.error ?? `the server answers ${answer.status}`, said.costs);
  }
  return answer;
}

export async function ask(name, query = {}, signal = undefined) {
  return (await send(name, query, signal)).json();
}

export async function askPicture(query, signal = undefined, name = "picture") {
  const body = await (await send(name, query, signal)).arrayBuffer();
  const length = new DataView(body).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length)));
  const kind = header.dtype === "f4" ? Float32Array : Float64Array;
  return { ...header, values: new kind(body, 4 + length) };
}

// Only the newest request of a series matters: earlier ones are abandoned.
export function newest() {
  let running = null;
  return async (question) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const found = await question(mine.signal);
      return running === mine ? found : undefined;
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return undefined;
      throw error;
    }
  };
}
