"""The query that decides when and where waiting messages go: delays, transactions, nacks and receipts.

A broker keeps everything that waits as rows of its system topics. A row that asks for one effect is a *cause*, named by
its position in the log. The query reads these rows without bodies, keeps each cause in a window of time until it is due
(the *wheel*), decides what happens to it, and posts the decision to the broker. The broker carries out one effect for
each cause, however often it is decided. So the wheel needs no care: if the query dies, repeats a batch or loses its
checkpoint, the next run starts with an empty wheel. Its first batch has what the broker lists as pending, and the rows
of the log from then on follow.

Three words are used everywhere. The *lead* is how long before it is due a delay is decided: the broker then holds it,
and delivers it on the millisecond. A *tick* is a row of the source that says only what time it is, by the clock of one
broker. A cause is *listed* by its broker rather than read from the log if it is older than the run, or due so late that
it enters the wheel later.

To understand all of it, read in this order:

1. docs/routing.md, "One cause, one effect" and "The query": what a cause is, and a picture of what follows.
2. `lakemq.model.decide`: the table of states and events, and the three functions that look up what happens when a half,
   a nack or a receipt is due. The gateway decides by the same functions.
3. `lakemq.model.wheel`: the rules of time: what an entry is, in which window it waits, and how far ahead the wheel
   looks.
4. `wheel_rows`: each row of the log as rows for the wheel: an entry, the end of one, or the time.
5. `wheel_state`: one window's entries, kept from batch to batch in Spark's state: which are due, and which stay.
6. `query`: one run, from what the brokers list as pending to `stop`: how a batch decides, and what ends the run.
7. `sender`: how decisions reach the brokers, also those that are away for a while.

`broker_routing` and `session` are details: a broker's settings as it reports them, and Spark's conf. Around this
package, `lakemq.jobs.source` makes the rows with the time (ticks) and asks brokers for what is pending,
`lakemq.jobs.process.keep_running` starts a new run after each failure, and `lakemq.gateway.routing` has the other side:
`pending` lists causes, `decisions` takes decisions, and `overdue` decides what no query has decided in time.
"""
