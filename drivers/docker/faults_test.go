package docker_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// front is a socket in front of a daemon. It can fail requests, and records those that end or change something.
type front struct {
	endpoint string

	mu    sync.Mutex
	fails string   // prefix of the paths whose GET fails, "" for none
	once  bool     // only the next of them
	ended []string // requests that removed, stopped or killed something
}

func newFront(t *testing.T, f *fixture) *front {
	t.Helper()
	socket := strings.TrimPrefix(f.daemon.Endpoint(), "unix://")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
	}
	p := &front{endpoint: "unix://" + filepath.Join(f.dir, "front")}
	l, err := net.Listen("unix", filepath.Join(f.dir, "front"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if strings.HasPrefix(path, "/v1.") {
			_, path, _ = strings.Cut(path[1:], "/")
			path = "/" + path
		}
		p.mu.Lock()
		fails := p.fails != "" && r.Method == http.MethodGet && strings.HasPrefix(path, p.fails)
		if fails && p.once {
			p.fails, p.once = "", false
		}
		if r.Method == http.MethodDelete || strings.HasSuffix(path, "/stop") || strings.HasSuffix(path, "/kill") {
			p.ended = append(p.ended, r.Method+" "+path)
		}
		p.mu.Unlock()
		if fails {
			http.Error(w, `{"message": "busy"}`, http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	return p
}

// fail makes the GET requests with a prefix fail, and returns what was ended since the last call.
func (p *front) fail(prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.ended
	p.fails, p.ended = prefix, nil
	return ended
}

// TestFaults_EndNothing checks that the driver ends and removes nothing because the daemon cannot answer: an error other
// than "not found" is not absence.
func TestFaults_EndNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	p := newFront(t, f)
	config := block{"endpoint": p.endpoint, "infra_image": f.config["infra_image"]}
	d := f.open(docker.Name, config)
	cfg := f.task(shell("sleep 1000"))
	n, err := d.CreateNetwork(t.Context(), cfg.AllocID, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.NetNS, cfg.NetLabels = n.Path, n.Labels
	h, err := d.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Abandon()
	p.fail("/")
	calls := map[string]func(d *docker.Driver) error{
		"CreateNetwork": func(d *docker.Driver) error {
			_, err := d.CreateNetwork(t.Context(), cfg.AllocID, "")
			return err
		},
		"RecoverTask":               func(d *docker.Driver) error { return d.RecoverTask(t.Context(), h) },
		"RecoverTask without state": func(d *docker.Driver) error { return d.RecoverTask(t.Context(), &drivers.TaskHandle{TaskID: h.TaskID}) },
		"DestroyNetwork":            func(d *docker.Driver) error { return d.DestroyNetwork(t.Context(), cfg.AllocID, n) },
		"DestroyTask":               func(d *docker.Driver) error { return d.DestroyTask(cfg.ID, true) },
		"StopTask":                  func(d *docker.Driver) error { return d.StopTask(t.Context(), cfg.ID, 0, "") },
		"ListTasks": func(d *docker.Driver) error {
			_, err := d.ListTasks(t.Context())
			return err
		},
		"StartTask": func(d *docker.Driver) error {
			_, err := d.StartTask(t.Context(), f.task(shell("true")))
			return err
		},
	}
	for name, call := range calls {
		for _, fails := range []string{"/", "/containers/", "/images/"} {
			if start := name == "StartTask"; fails == "/images/" && !start || fails == "/containers/" && start {
				continue // succeeds, or removes the container that it has created
			}
			p.fail(fails)
			err := call(f.open(docker.Name, config))
			if ended := p.fail(""); err == nil || err == drivers.ErrTaskNotFound || len(ended) > 0 {
				t.Errorf("%s while %s fails: %v, want an error; ended %q", name, fails, err, ended)
			}
		}
	}
	p.mu.Lock()
	p.fails, p.once, p.ended = "/containers/", true, nil
	p.mu.Unlock()
	if _, err := f.open(docker.Name, config).CreateNetwork(t.Context(), cfg.AllocID, ""); err == nil {
		t.Error("CreateNetwork() after one failure = nil")
	}
	if ended := p.fail(""); len(ended) > 0 {
		t.Errorf("one failure ends %q", ended)
	}
	again, err := d.CreateNetwork(t.Context(), cfg.AllocID, "")
	if err != nil || again.Labels["docker_sandbox_container_id"] != n.Labels["docker_sandbox_container_id"] {
		t.Errorf("CreateNetwork() = %+v, %v, want the first one: %+v", again, err, n)
	}
	if err := d.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
	if err := d.DestroyNetwork(t.Context(), cfg.AllocID, n); err != nil {
		t.Error(err)
	}
}

// TestKeptContainers_Restart checks that the next agent does not remove the containers that gc keeps. It ends those that
// run without an allocation.
func TestKeptContainers_Restart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"gc": block{"container": false}})
	done, lost := f.task(shell("true")), f.task(shell("sleep 1000"))
	var ids []string
	for _, cfg := range []*drivers.TaskConfig{done, lost} {
		f.start(cfg)
		status, err := f.InspectTask(cfg.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, status.Attributes["container_id"])
	}
	f.wait(done.ID)
	if err := f.DestroyTask(done.ID, false); err != nil {
		t.Fatal(err)
	}
	f.Abandon()
	next := f.open(docker.Name, f.config)
	list, err := next.ListTasks(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("ListTasks() = %v, %v", list, err)
	}
	for _, task := range list { // as the client ends what has no allocation
		if err := next.DestroyTask(task.ID, true); err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		if c := f.inspect(id); c.State.Running {
			t.Errorf("container %s runs", id)
		}
	}
}
