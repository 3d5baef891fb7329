package client_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// droplet is the metadata service of a DigitalOcean machine while on is true.
func droplet(t *testing.T, on *atomic.Bool) string {
	t.Helper()
	values := map[string]string{"/id": "4711", "/region": "nyc3", "/hostname": "web-1"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := values[r.URL.Path]
		if !ok || !on.Load() {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, v)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// The node registers without the facts of a metadata service that does not answer yet, and again with them.
func TestClouds_Facts(t *testing.T) {
	f := clienttest.StartServer(t)
	var on atomic.Bool
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.Clouds = []cloud.Provider{{Name: "env_digitalocean", URL: droplet(t, &on), RetryAttempts: -1, RetryInterval: time.Millisecond}}
	clienttest.Start(t, cfg)
	registered := func() (attribute, link string, ok bool) {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		if f.Node == nil {
			return "", "", false
		}
		return f.Node.Attributes["platform.digitalocean.region"], f.Node.Links["digitalocean"], true
	}
	testpace.Until(t, "the node registers without facts", func() bool { _, _, ok := registered(); return ok })
	if region, link, _ := registered(); region != "" || link != "" {
		t.Errorf("region %q, link %q of a silent service", region, link)
	}
	on.Store(true)
	testpace.Until(t, "the node registers with the facts", func() bool {
		region, link, _ := registered()
		return region == "nyc3" && link == "4711"
	})
}

// With exit_on_failure a client ends with an error that names the fingerprinter.
func TestClouds_Exit(t *testing.T) {
	f := clienttest.StartServer(t)
	var off atomic.Bool
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	cfg.Clouds = []cloud.Provider{{Name: "env_digitalocean", URL: droplet(t, &off), ExitOnFailure: true}}
	c, err := client.New(cfg, client.Parts{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const want = "fingerprint env_digitalocean (exit_on_failure is set): probe: "
	if err := c.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Run() = %v, want %s…", err, want)
	}
}
