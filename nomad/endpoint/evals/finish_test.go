package evals_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestEvalFinish_Rules ends an evaluation like a worker. Each invalid request is refused before anything
// is written.
func TestEvalFinish_Rules(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Workers = -1 })
	write := message.WriteRequest{Region: "global"}
	dequeue := func(wait time.Duration) *message.EvalDequeueResponse {
		out := servertest.Read[message.EvalDequeueResponse](t, s, "Eval.Dequeue",
			&message.EvalDequeueRequest{Schedulers: []string{nomad.JobTypeBatch}, Timeout: wait, WriteRequest: write})
		return &out
	}
	var next message.EvalDequeueResponse // it also ends the previous one
	finish := func(token string, evals ...*nomad.Evaluation) error {
		return s.Call(servertest.Context(t), "Eval.Finish",
			&message.EvalFinishRequest{Evals: evals, EvalToken: token, Schedulers: []string{nomad.JobTypeBatch}, WriteRequest: write}, &next)
	}
	stored := func(id string) *nomad.Evaluation {
		return servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval",
			&message.EvalSpecificRequest{EvalID: id, QueryOptions: servertest.Global}).Eval
	}
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	checkToken := dequeue(time.Minute)
	servertest.Register(t, s, servertest.BatchJob("b", 2)) // its evaluation waits for the first

	done, blocked := *checkToken.Eval, *checkToken.Eval
	done.Status, done.FailedTGAllocs = nomad.EvalStatusComplete, map[string]*nomad.AllocMetric{"g": {}}
	blocked.ID, blocked.PreviousEval, blocked.Status = nomad.NewID(), done.ID, nomad.EvalStatusBlocked
	done.BlockedEval = blocked.ID
	other, known, core := blocked, blocked, blocked
	other.PreviousEval, known.ID, core.Type = nomad.NewID(), done.ID, nomad.JobTypeCore
	servertest.WantError(t, finish(checkToken.Token), 400, "no evaluation")
	servertest.WantError(t, finish(checkToken.Token, &done, &other), 400, "does not follow")
	servertest.WantError(t, finish(checkToken.Token, &done, &core), 400, "does not follow")
	servertest.WantError(t, finish(checkToken.Token, &done, &known), 409, "already exists")
	if err := finish(nomad.NewID(), &done, &blocked); err == nil {
		t.Error("an evaluation that another worker holds was finished")
	}
	if got := stored(done.ID); got.Status != nomad.EvalStatusPending {
		t.Fatalf("after the refused requests the evaluation is %s", got.Status)
	}
	if early := dequeue(50 * time.Millisecond); early.Eval != nil {
		t.Fatal("two evaluations of a job were dequeued")
	}

	if err := finish(checkToken.Token, &done, &blocked); err != nil {
		t.Fatal(err)
	}
	a, b := stored(done.ID), stored(blocked.ID)
	if a.Status != nomad.EvalStatusComplete || b.Status != nomad.EvalStatusBlocked || a.ModifyIndex != b.ModifyIndex {
		t.Errorf("finished as %s at %d, blocked as %s at %d: want both at one index", a.Status, a.ModifyIndex, b.Status, b.ModifyIndex)
	}
	if next.Eval == nil || next.Eval.ID == done.ID || next.WaitIndex < a.ModifyIndex {
		t.Errorf("the next evaluation is %+v, want the job's next evaluation, at index %d", next, a.ModifyIndex)
	}
	if err := finish(checkToken.Token, &done); err == nil {
		t.Error("an evaluation was finished twice")
	}
	last := *next.Eval
	last.Status = nomad.EvalStatusComplete
	token := next.Token
	if next = (message.EvalDequeueResponse{}); finish(token, &last) != nil || next.Eval != nil {
		t.Errorf("after the last evaluation: %+v", next)
	}
}
