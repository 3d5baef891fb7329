package template_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/nomad"
)

// ofAgent is the token of the agent, which no template may use.
const ofAgent = "s3cret-of-the-agent"

// withConsul makes the client one with Consul.
func (w *world) withConsul(addr string) {
	w.t.Helper()
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: addr, Token: ofAgent}, Timeout: 5 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.consul = a
	w.config.ConsulRetry = render.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}
	w.restartAgent()
}

func (w *world) consulToken() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secret
}

func (w *world) setToken(secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secret = secret
}

// rejectToken is called when Consul does not know a token.
func (w *world) rejectToken(secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secret == secret {
		w.secret = ""
	}
}

const readApp = `key_prefix "app" { policy = "read" }`

// TestConsul_Changes checks that change modes follow keys in Consul, also those that changed while the agent was down, and
// that an outage leaves the task alone, with one event for its begin and one for its end.
func TestConsul_Changes(t *testing.T) {
	t.Parallel() // it mostly waits
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	a.PutKey("app/limit", "one")
	w := newWorld(t)
	w.setToken(a.NewToken(t, readApp))
	w.withConsul(a.Addr())
	list := with(text("local/x", `{{ key "app/limit" }} {{ env "GREETING" }}`), func(t *nomad.Template) { t.ChangeMode, t.ChangeSignal = "signal", "SIGHUP" })
	b := w.runs(list)
	if got := w.file("local/x"); got != "one hello" {
		t.Errorf("the file = %q", got)
	}
	a.PutKey("app/limit", "two")
	w.until("a change is followed, with a signal", func() bool { return w.file("local/x") == "two hello" && len(w.task.sent()) == 1 })

	b.stop()
	w.restartAgent()
	a.PutKey("app/limit", "three")
	again := w.start(list)
	again.Running = true
	w.mustBegin(again)
	w.all.Started(nil)
	w.until("the missed change is applied", func() bool { return w.file("local/x") == "three hello" && len(w.task.sent()) == 2 })

	for _, mode := range []testconsul.Mode{{Refuse: true}, {Fail: true}} {
		if err := a.Set(mode); err != nil {
			t.Fatal(err)
		}
		a.PutKey("app/limit", "three") // ends the blocking query
		before := len(w.task.messages(nomad.TaskTemplate))
		w.until("the outage is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == before+1 })
		if err := a.Set(testconsul.Mode{}); err != nil {
			t.Fatal(err)
		}
		w.until("the end is reported", func() bool { return len(w.task.messages(nomad.TaskTemplate)) == before+2 })
	}
	got := w.task.messages(nomad.TaskTemplate)
	if !strings.HasPrefix(got[0], "Cannot read kv.block(app/limit): Consul does not answer: ") || !strings.Contains(got[0], "The last content stays") ||
		!strings.HasPrefix(got[1], "Templates are up to date again") || !strings.HasPrefix(got[2], "Cannot read kv.block(app/limit): Consul returned status 500") {
		t.Errorf("events = %q", got)
	}
	if strings.Contains(strings.Join(got, ""), "s3cret") || len(w.task.sent()) != 2 || len(w.task.killed()) > 0 {
		t.Errorf("events = %q, signals %v, kills %v", got, w.task.sent(), w.task.killed())
	}
}

// TestConsul_Token checks that a task without a token gets an event and waits, that the next request uses a new token
// without a restart of the program, and that one that Consul does not know is reported.
func TestConsul_Token(t *testing.T) {
	t.Parallel() // it mostly waits
	a := testconsul.Start(t, testconsul.Config{ACL: true, Manual: true})
	a.Expect("Permission denied")
	a.Expect("ACL not found")
	a.PutKey("app/limit", "one")
	w := newWorld(t)
	w.withConsul(a.Addr())
	done := make(chan error, 1)
	go func() {
		_, err := w.begin(w.start(text("local/x", `{{ key "app/limit" }}`)))
		done <- err
	}()
	w.until("the missing token is reported", func() bool {
		return count(w.task.messages(nomad.TaskTemplate), "Cannot read kv.block(app/limit): the task has no token of Consul, because its login has failed") == 1
	})
	first := a.NewToken(t, readApp)
	w.setToken(first)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.Revoke(first)
	a.PutKey("app/limit", "two") // ends the blocking query
	w.until("the token is rejected", func() bool { return w.consulToken() == "" })
	w.setToken(a.NewToken(t, readApp))
	w.until("the next token is used", func() bool { return w.file("local/x") == "two" })
	if started, _ := w.programsRun(); started != 1 {
		t.Errorf("%d programs were started", started)
	}
}

// TestConsul_Retry checks that reads are repeated without end, unless the operator has set a number.
func TestConsul_Retry(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	if err := a.Set(testconsul.Mode{Fail: true}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.withConsul(a.Addr())
	w.config.ConsulRetry.Attempts = 2
	w.restartAgent()
	_, err := w.begin(w.start(text("local/x", `{{ range service "web" }}{{ end }}`)))
	const want = `Template failed: template with destination "local/x": health.service(web|passing): Consul returned status 500`
	if err == nil || err.Error() != want {
		t.Errorf("Begin() = %v, want %s", err, want)
	}
	if n := a.Calls("GET /v1/health/service/web"); n != 3 {
		t.Errorf("%d reads", n)
	}
}

// TestConsul_Missing checks the event of missing data, and a render on demand with a program of its own.
func TestConsul_Missing(t *testing.T) {
	t.Parallel() // it mostly waits
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	w := newWorld(t)
	w.withConsul(a.Addr())
	begun := make(chan error, 1)
	go func() {
		_, err := w.begin(w.start(text("local/x", `{{ range loop 5 }}{{ key (printf "app/late%d" .) }}{{ end }}`)))
		begun <- err
	}()
	w.until("missing keys are reported", func() bool {
		return count(w.task.messages(nomad.TaskTemplate), "Missing: kv.block(app/late0), kv.block(app/late1), kv.block(app/late2), and 2 more") == 1
	})
	for i := range 5 {
		a.PutKey("app/late"+string(rune('0'+i)), "x")
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	diffs, err := w.all.CompareRender(t.Context())
	if err != nil || len(diffs) != 1 || diffs[0].Changed {
		t.Errorf("CompareRender() = %+v, %v", diffs, err)
	}
}
