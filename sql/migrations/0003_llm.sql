-- What language models said, by model, parameters and prompt. A row without text and without `rejected` was
-- asked and not answered usably yet. Tokens and costs are those of every attempt.
CREATE TABLE llm_replies (
    key text PRIMARY KEY,
    stage text NOT NULL,
    model text NOT NULL,
    text text,
    finish text NOT NULL DEFAULT '',
    logprobs jsonb NOT NULL DEFAULT '[]',
    rejected text,
    attempts integer NOT NULL DEFAULT 0,
    prompt_tokens bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    estimated_tokens bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0,
    currency text NOT NULL DEFAULT '',
    run_id text NOT NULL DEFAULT '',
    generation integer,
    at timestamptz NOT NULL DEFAULT now(),
    CHECK (text IS NULL OR rejected IS NULL)
);
CREATE INDEX ON llm_replies (run_id);

-- Batches of prompts at an endpoint: recorded before they are submitted, without an id until they are.
CREATE TABLE llm_batches (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL,
    batch_id text,
    base_url text NOT NULL,
    model text NOT NULL,
    stage text NOT NULL,
    generation integer,
    run_id text NOT NULL,
    keys text[] NOT NULL,
    state text NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT now(),
    collected_at timestamptz
);
