package sdk_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The official SDK follows a job from its registration to its end, and receives no secret.
func TestSDKEvents(t *testing.T) {
	g := harness.NewACLClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	topics := map[sdk.Topic][]string{sdk.TopicAll: {"*"}}
	lines, err := g.EventStream().Stream(ctx, topics, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := sdk.NewBatchJob("told", "told", "global", 50).AddTaskGroup(sdk.NewTaskGroup("g", 1).
		AddTask(sdk.NewTask("t", "mock_driver").SetConfig("run_for", "10ms")))
	registered, _, err := g.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for ended := false; !ended || !seen["Evaluation EvaluationUpdated"]; {
		line, open := <-lines
		if !open || line.Err != nil {
			t.Fatalf("the stream ended: %+v; seen: %v", line, seen)
		}
		for _, e := range line.Events {
			seen[string(e.Topic)+" "+e.Type] = true
			switch e.Topic {
			case sdk.TopicJob:
				if j, err := e.Job(); err != nil || j == nil || *j.ID != e.Key {
					t.Errorf("Job() = %+v, %v", j, err)
				}
			case sdk.TopicEvaluation:
				if ev, err := e.Evaluation(); err != nil || ev == nil || ev.ID != e.Key {
					t.Errorf("Evaluation() = %+v, %v", ev, err)
				}
			case sdk.TopicNode:
				if n, err := e.Node(); err != nil || n == nil || n.ID != e.Key {
					t.Errorf("Node() = %+v, %v", n, err)
				}
			case sdk.TopicAllocation:
				a, err := e.Allocation()
				if err != nil || a == nil || a.ID != e.Key || a.JobID != "told" {
					t.Fatalf("Allocation() = %+v, %v", a, err)
				}
				if ended = a.ClientStatus == "complete"; ended {
					checkTerminated(t, a.TaskStates["t"])
				}
			}
			for _, of := range []string{"ACLToken", "Node", "Allocation"} {
				thing, _ := e.Payload[of].(map[string]any)
				if secret, _ := thing["SecretID"].(string); secret != "" || thing["SignedIdentities"] != nil {
					t.Errorf("an event contains the secret of a %s", of)
				}
			}
		}
	}
	for _, what := range []string{"Node NodeRegistration", "ACLToken ACLTokenUpserted", "Job JobRegistered", "Evaluation JobRegistered",
		"Allocation PlanResult", "Allocation AllocationUpdated"} {
		if !seen[what] {
			t.Errorf("no event %s; seen: %v", what, seen)
		}
	}
	ownSDK(t, g, registered.EvalID)
}

// checkTerminated checks the event of a task's end, whose details dashboards read.
func checkTerminated(t *testing.T, s *sdk.TaskState) {
	t.Helper()
	for _, e := range s.Events {
		if e.Type != sdk.TaskTerminated {
			continue
		}
		if e.Details["oom_killed"] != "false" || e.Details["exit_code"] != "0" || e.Details["signal"] != "0" {
			t.Errorf("the details of the end are %v", e.Details)
		}
		return
	}
	t.Errorf("no event of the end: %+v", s.Events)
}

// ownSDK follows the same evaluation with the SDK of this project.
func ownSDK(t *testing.T, g *harness.ACLClient, eval string) {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: g.Agent.Address(), SecretID: harness.BootSecret})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	lines, err := c.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicEvaluation: {eval}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first := <-lines; first == nil || !first.IsHeartbeat() {
		t.Fatalf("the first line is %+v, want a heartbeat", first)
	}
	line := <-lines
	if line == nil || len(line.Events) != 1 || line.IsHeartbeat() {
		t.Fatalf("the second line is %+v, want the evaluation", line)
	}
	if e, err := line.Events[0].Evaluation(); err != nil || e == nil || e.ID != eval || e.JobID != "told" {
		t.Errorf("Evaluation() = %+v, %v", e, err)
	}
	if j, err := line.Events[0].Job(); j != nil || err != nil {
		t.Errorf("Job() of an evaluation = %+v, %v", j, err)
	}
	cancel()
	for range lines { // until it is closed
	}
}

// The stream of a token ends when the token is deleted. Without a token it is rejected.
func TestEventStreamOverHTTP(t *testing.T) {
	g := harness.NewACLClient(t)
	g.CreatePolicy(t, "readers", `namespace "default" { policy = "read" }`, nil)
	_, token := g.As(t, "readers")
	open := func(query, secret string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Agent.Address()+"/v1/event/stream?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nomad-Token", secret)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for query, want := range map[string]int{"topic=Job": 200, "": 403, "topic=Node": 403, "topic=Job&namespace=other": 403,
		"topic=Job&topic=ACLToken": 403,
		"topic=Jobs":               400, "topic=:x": 400, "topic=Job&index=x": 400, "topic=Job&index=-1": 400, "topic=Operator": 501} {
		if got := open(query, token.SecretID); got.StatusCode != want {
			t.Errorf("%q is answered %d, want %d", query, got.StatusCode, want)
		}
	}
	if got := open("topic=Job", ""); got.StatusCode != http.StatusForbidden {
		t.Errorf("a request without a token gets %d", got.StatusCode)
	}
	resp := open("topic=Job:web&topic=Evaluation", token.SecretID)
	if len(resp.TransferEncoding) != 0 || resp.Header.Get("Content-Encoding") == "gzip" || !resp.Close ||
		resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the head of the stream is %v %v", resp.Header, resp.TransferEncoding)
	}
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "{}" {
		t.Fatalf("the first line is %q", lines.Text())
	}
	if _, err := g.ACLTokens().Delete(token.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for lines.Scan() { // to its end
		if !strings.HasPrefix(lines.Text(), `{"Error":`) {
			t.Errorf("after the token was deleted comes %q", lines.Text())
		}
	}
	if took := time.Since(begun); took > harness.Patience {
		t.Errorf("the stream ended %v after its token", took)
	}
}
