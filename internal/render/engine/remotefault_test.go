package engine_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestConsulFollows checks that templates follow changes, also after Consul came back with empty state and a lower index, and
// that an outage, or a proxy that cuts connections, renders nothing.
func TestConsulFollows(t *testing.T) {
	t.Parallel() // it mostly waits
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	w := newWorld(t)
	p := startConsul(t, a.Addr(), "", w.request(`{{ key "app/late" }}`, `{{ range service "web" }}{{ .ID }} {{ end }}`))
	p.until("the key is missing", func() bool {
		return len(p.missing) > 0 && strings.Join(p.missing[len(p.missing)-1].Names, " ") == "kv.block(app/late)"
	})
	rendered := func(key, web string) func() bool {
		return func() bool { return lastOf(p.contents[0]) == key && lastOf(p.contents[1]) == web }
	}
	a.PutKey("app/late", "one")
	p.until("the key is there", rendered("one", ""))
	register(t, a, "")
	p.until("the services are followed", rendered("one", "w0 w2 "))
	a.DeleteKey("app/late")
	must(t, a.Set(testconsul.Mode{PollLimit: 50 * time.Millisecond}))
	must(t, a.Restart())
	a.PutKey("app/late", "two")
	p.until("the key is followed after a restart with a lower index", rendered("two", ""))

	before := a.Calls("GET /v1/kv/app/late")
	p.until("some queries are cut", func() bool { return a.Calls("GET /v1/kv/app/late") > before+6 })
	must(t, a.Set(testconsul.Mode{Fail: true}))
	a.DeleteKey("app/late") // the value stays
	p.until("the outage", func() bool { return len(p.outages) == 1 })
	must(t, a.Set(testconsul.Mode{}))
	p.until("the end of the outage", func() bool { return p.kinds[len(p.kinds)-1] == render.KindRecovered })
	p.stop()
	if got := strings.Join(p.contents[0], " "); got != "one two" {
		t.Errorf("the key was rendered as %q", got)
	}
	if o := p.outages[0]; !strings.Contains(o.Text, "Consul returned status 500") || len(p.outages) != 1 {
		t.Errorf("outages = %+v", p.outages)
	}
}

// lastOf returns the last element, or "".
func lastOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// TestConsulAnswers checks answers that are no answers of Consul: they are errors of the read, and the program goes on.
func TestConsulAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	large := `[{"Key":"a","Value":"` + strings.Repeat("eHh4", 10<<18) + `"}]`
	for name, c := range map[string]struct{ text, answer string }{
		"garbage":       {`{{ key "a" }}`, "\x00\xff<html>"},
		"another type":  {`{{ key "a" }}`, `{"Key": 1}`},
		"empty":         {`{{ range services }}{{ end }}`, ``},
		"null":          {`{{ range service "web" }}{{ end }}`, `[null]`},
		"null in a key": {`{{ key "a" }}`, `[null]`},
		"no service":    {`{{ range service "web" }}{{ end }}`, `[{"Node":null}]`},
		"10 MB":         {`{{ range tree "a" }}{{ end }}`, large},
	} {
		var calls atomic.Int32
		var broken atomic.Bool
		broken.Store(true)
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			rw.Header().Set("X-Consul-Index", "6")
			rw.Header().Set("X-Consul-LastContact", "0")
			switch {
			case broken.Load():
				rw.Header().Set("X-Consul-Index", "5")
				rw.Write([]byte(c.answer)) //nolint:errcheck // the proxy may end it
			case strings.HasPrefix(r.URL.Path, "/v1/catalog/"):
				rw.Write([]byte(`{}`)) //nolint:errcheck // shown by the render
			case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
				rw.Write([]byte(`[{"Key":"a","Value":""}]`)) //nolint:errcheck // shown by the render
			default:
				rw.Write([]byte(`[]`)) //nolint:errcheck // shown by the render
			}
		}))
		t.Cleanup(srv.Close)
		p := startConsul(t, srv.URL, "", newWorld(t).request(c.text))
		p.until(name+": the read is repeated", func() bool { return calls.Load() > 2 })
		p.mu.Lock()
		if p.fatal != nil || len(p.contents) > 0 {
			t.Errorf("%s: %+v, %v", name, p.fatal, p.contents)
		}
		p.mu.Unlock()
		broken.Store(false)
		p.rendersFirst("")
		p.stop()
	}
	req := newWorld(t).request(`{{ key "a" }}`)
	req.Consul = &render.Consul{Retry: render.Retry{Attempts: 1, Backoff: time.Millisecond}}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Write([]byte(`s3cret`)) //nolint:errcheck // shown by the error
	}))
	t.Cleanup(srv.Close)
	p := startConsul(t, srv.URL, "", req)
	p.ended()
	if p.fatal == nil || !strings.Contains(p.fatal.Text, "kv.block(a): the answer of Consul is incomplete, malformed or larger than 8 MiB") {
		t.Errorf("error = %+v", p.fatal)
	}
}
