package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// discovery is a client with a DNS server and the Consul API at an address of its own, and the address of its instances.
type discovery struct {
	*cluster.Agent
	ip, instance string
}

// newDiscovery joins a client. Its DNS answers are used for 10 seconds without servers.
func newDiscovery(t *testing.T, f *harness.Fleet, name, instance string) *discovery {
	t.Helper()
	ip := testnet.Take(t).IP()
	return &discovery{f.Join(name, fmt.Sprintf("client {\n network_interface = \"lo\"\n meta {\n  instance = %q\n }\n dns {\n  address = \"%s:8600\"\n"+
		"  max_stale = \"10s\"\n }\n consul_api {\n  address = \"%s:8500\"\n }\n}\n", instance, ip, ip)), ip, instance}
}

// dns returns the addresses of a service, sorted, or an error: notFound if the servers have no instance.
func (d *discovery) dns(t *testing.T, service string) ([]string, error) {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, d.ip+":8600")
	}}
	out, err := r.LookupHost(t.Context(), service+".service.nomad.")
	slices.Sort(out)
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		return nil, errNotFound
	}
	return out, err
}

var errNotFound = errors.New("no such host")

// consul returns the addresses of the passing instances of a service in the Consul API, sorted.
func (d *discovery) consul(t *testing.T, service string) (out []string, err error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.ip+":8500/v1/health/service/"+service+"?passing&stale", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var rows []struct{ Service struct{ Address string } }
	if err := json.NewDecoder(resp.Body).Decode(&rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		out = append(out, row.Service.Address)
	}
	slices.Sort(out)
	return out, nil
}

// finds waits until DNS and the Consul API have exactly the instances.
func (d *discovery) finds(t *testing.T, service string, want ...string) {
	t.Helper()
	harness.Within(t, harness.Patience, fmt.Sprintf("%s answers %s with %v", d.ip, service, want), func() bool {
		byDNS, err := d.dns(t, service)
		byConsul, cerr := d.consul(t, service)
		return (err == nil || len(want) == 0 && errors.Is(err, errNotFound)) && cerr == nil && slices.Equal(byDNS, want) && slices.Equal(byConsul, want)
	})
}

// serving is a service with the address of the node.
const serving = `
    service {
      name     = %q
      provider = "consul"
      address  = "${meta.instance}"
      port     = "80"
    }
`

// TestDiscovery_NodeIsLost checks the answers of DNS and of the Consul API on two nodes while one of them hangs, is lost
// and returns, and during an outage of the server.
func TestDiscovery_NodeIsLost(t *testing.T) {
	t.Parallel() // it mostly waits
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := newDiscovery(t, f, "first", "192.0.2.1")
	second := newDiscovery(t, f, "second", "192.0.2.2")
	defer f.Purge()
	harness.Run(t, f.Server, harness.Job("web", `type = "system"`, fmt.Sprintf(serving, "web")+harness.SmallTask))
	harness.Run(t, f.Server, harness.Job("gone", "constraint {\n attribute = \"${node.unique.name}\"\n value = \"second\"\n}",
		fmt.Sprintf(serving, "gone")+harness.SmallTask))
	for _, d := range []*discovery{first, second} {
		d.finds(t, "web", first.instance, second.instance)
		d.finds(t, "gone", second.instance)
	}
	signal := func(s os.Signal) {
		t.Helper()
		p, err := os.FindProcess(first.Pid())
		if err == nil {
			err = p.Signal(s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id, hung := harness.NodeID(t, first.Agent), time.Now()
	signal(syscall.SIGSTOP)
	if _, _, err := f.Server.Client.Jobs().Deregister("gone", false, nil); err != nil {
		t.Error(err)
	}
	harness.WaitNodeStatus(t, f.Server, id, "down")
	second.finds(t, "web", second.instance)
	second.finds(t, "gone")
	harness.Within(t, harness.Patience, "its answers are older than max_stale", func() bool { return time.Since(hung) > 11*time.Second })
	signal(syscall.SIGCONT)
	if got, err := first.dns(t, "gone"); err == nil {
		t.Errorf("the node that was lost answers with %v, which is older than max_stale", got)
	}
	harness.WaitNodeStatus(t, f.Server, id, "ready")
	for _, d := range []*discovery{first, second} {
		d.finds(t, "web", first.instance, second.instance)
		d.finds(t, "gone")
	}

	// Without servers, DNS answers for max_stale, and the Consul API does not.
	if err := f.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := second.dns(t, "web"); err != nil || len(got) != 2 {
		t.Errorf("without servers: DNS answers with %v, %v", got, err)
	}
	if got, err := second.consul(t, "web"); err == nil {
		t.Errorf("without servers: the Consul API answers with %v", got)
	}
	harness.Within(t, harness.Patience, "DNS fails", func() bool {
		got, err := second.dns(t, "web")
		return err != nil && !errors.Is(err, errNotFound) && len(got) == 0
	})
	f.Server = harness.Restart(t, f.Server)
	for _, d := range []*discovery{first, second} {
		d.finds(t, "web", first.instance, second.instance)
	}
}

// TestDiscovery_Drain checks that a drained instance has left the catalog when its task gets the signal, and DNS of
// another node when shutdown_delay is over.
func TestDiscovery_Drain(t *testing.T) {
	t.Parallel() // it mostly waits
	f := harness.NewFleet(t, harness.QuickHeartbeats)
	first := newDiscovery(t, f, "first", "192.0.2.1")
	defer f.Purge()
	seen := filepath.Join(f.Dir, "seen")
	task := func(name string) string {
		ask := fmt.Sprintf(`exec 3<>/dev/tcp/%s/8500; printf "GET /v1/health/service/%s HTTP/1.0\r\nHost: localhost\r\n\r\n" >&3; cat <&3 >%s.%s.tmp; `+
			`mv %s.%s.tmp %s.%s; exit 0`, first.ip, name, seen, name, seen, name, seen, name)
		return harness.Shell(fmt.Sprintf("exec bash -c 'trap \"%s\" TERM; while :; do sleep 0.1; done'", strings.ReplaceAll(ask, `"`, `\"`)),
			`kill_timeout = "20s"`, `kill_signal = "SIGTERM"`)
	}
	for name, delay := range map[string]string{"now": "", "later": "shutdown_delay = \"10s\"\n"} {
		harness.Run(t, f.Server, harness.Job(name, "", delay+fmt.Sprintf(serving, name)+task(name)))
		harness.Await(t, f.Server, name, "running", 1)
		first.finds(t, name, first.instance)
	}
	second := newDiscovery(t, f, "second", "192.0.2.2")
	second.finds(t, "later", first.instance)
	if _, err := f.Server.Client.Nodes().UpdateDrain(harness.NodeID(t, first.Agent), &api.DrainSpec{Deadline: time.Hour}, false, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "DNS lacks the drained instance", func() bool {
		got, err := second.dns(t, "later")
		return (err == nil || errors.Is(err, errNotFound)) && !slices.Contains(got, first.instance)
	})
	without := time.Now()
	for _, name := range []string{"now", "later"} {
		path := seen + "." + name
		text := harness.FileText(t, path)
		if !strings.HasPrefix(text, "HTTP/1.0 200") || strings.Contains(text, `"Address":"`+first.instance+`"`) {
			t.Errorf("the task of %s found at its signal: %s", name, text)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "later" && info.ModTime().Before(without) {
			t.Errorf("the task got its signal at %s, before DNS lacked the instance at %s", info.ModTime(), without)
		}
	}
	second.finds(t, "now", second.instance)
	second.finds(t, "later", second.instance)
}
