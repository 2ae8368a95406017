-- Replies of language models, what they cost, and batches of prompts under way.

-- name: replies
SELECT key, text, finish, logprobs, model, rejected, attempts FROM pincite.llm_replies WHERE key = ANY (%(keys)s::text[]);

-- name: unknown_keys
SELECT key FROM unnest(%(keys)s::text[]) AS wanted (key)
WHERE NOT EXISTS (SELECT FROM pincite.llm_replies AS known WHERE known.key = wanted.key);

-- name: keep_reply
-- One more attempt. What an earlier run paid for the same key counts with this one.
INSERT INTO pincite.llm_replies AS kept (key, stage, model, text, finish, logprobs, attempts, prompt_tokens,
    completion_tokens, estimated_tokens, cost, currency, run_id, generation)
VALUES (%(key)s, %(stage)s, %(model)s, %(text)s, %(finish)s, %(logprobs)s, 1, %(prompt_tokens)s,
    %(completion_tokens)s, %(estimated_tokens)s, %(cost)s, %(currency)s, %(run_id)s, %(generation)s)
ON CONFLICT (key) DO UPDATE SET
    stage = excluded.stage, model = excluded.model, text = excluded.text, finish = excluded.finish,
    logprobs = excluded.logprobs, rejected = NULL, attempts = kept.attempts + 1,
    prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = kept.completion_tokens + excluded.completion_tokens,
    estimated_tokens = kept.estimated_tokens + excluded.estimated_tokens,
    cost = kept.cost + excluded.cost, currency = excluded.currency,
    run_id = excluded.run_id, generation = excluded.generation, at = now();

-- name: refuse_reply
-- The reply cannot be used; with a reason, no other is bought.
UPDATE pincite.llm_replies SET text = NULL, logprobs = '[]', rejected = %(rejected)s WHERE key = %(key)s;

-- name: count_failure
-- An attempt that brought no reply: after the last one no other is made.
INSERT INTO pincite.llm_replies AS kept (key, stage, model, attempts, rejected, run_id, generation)
VALUES (%(key)s, %(stage)s, %(model)s, 1, CASE WHEN %(most)s <= 1 THEN %(message)s END, %(run_id)s, %(generation)s)
ON CONFLICT (key) DO UPDATE SET
    text = NULL, attempts = kept.attempts + 1,
    rejected = CASE WHEN kept.attempts + 1 >= %(most)s THEN %(message)s END, at = now();

-- name: restore_reply
INSERT INTO pincite.llm_replies (key, stage, model, text, finish, rejected)
VALUES (%(key)s, %(stage)s, %(model)s, %(text)s, %(finish)s, %(rejected)s)
ON CONFLICT (key) DO NOTHING;

-- name: llm_costs
SELECT stage, generation, model, currency, count(*) AS prompts, sum(attempts)::bigint AS calls,
    sum(prompt_tokens)::bigint AS prompt_tokens, sum(completion_tokens)::bigint AS completion_tokens,
    sum(estimated_tokens)::bigint AS estimated_tokens, sum(cost) AS cost
FROM pincite.llm_replies WHERE attempts > 0
GROUP BY stage, generation, model, currency ORDER BY stage, generation, model, currency;

-- name: llm_costs_of_run
SELECT stage, generation, model, currency, count(*) AS prompts, sum(attempts)::bigint AS calls,
    sum(prompt_tokens)::bigint AS prompt_tokens, sum(completion_tokens)::bigint AS completion_tokens,
    sum(estimated_tokens)::bigint AS estimated_tokens, sum(cost) AS cost
FROM pincite.llm_replies WHERE attempts > 0 AND run_id = %(run_id)s
GROUP BY stage, generation, model, currency ORDER BY stage, generation, model, currency;

-- name: open_batches
SELECT number, fingerprint, batch_id, keys, submitted_at FROM pincite.llm_batches
WHERE collected_at IS NULL AND base_url = %(base_url)s AND model = %(model)s AND stage = %(stage)s ORDER BY number;

-- name: known_batches
SELECT batch_id FROM pincite.llm_batches WHERE batch_id IS NOT NULL AND base_url = %(base_url)s;

-- name: record_batch
INSERT INTO pincite.llm_batches (fingerprint, base_url, model, stage, generation, run_id, keys, state)
VALUES (%(fingerprint)s, %(base_url)s, %(model)s, %(stage)s, %(generation)s, %(run_id)s, %(keys)s, 'submitting')
RETURNING number;

-- name: batch_submitted
UPDATE pincite.llm_batches SET batch_id = %(batch_id)s, state = 'submitted' WHERE number = %(number)s;

-- name: batch_collected
UPDATE pincite.llm_batches SET state = %(state)s, collected_at = now() WHERE number = %(number)s;

-- name: forget_batch
DELETE FROM pincite.llm_batches WHERE number = %(number)s;

-- name: batched_keys
SELECT keys FROM pincite.llm_batches
WHERE collected_at IS NULL AND base_url = %(base_url)s AND model = %(model)s AND stage = %(stage)s;

-- name: forget_replies
DELETE FROM pincite.llm_replies WHERE stage = ANY (%(stages)s::text[]);
