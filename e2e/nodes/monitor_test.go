package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// reloaded is a line that an agent logs.
const reloaded = `: configuration reloaded: `

// reload makes an agent log a line.
func reload(t *testing.T, a *cluster.Agent) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, a.Address()+"/v1/agent/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// shows reports whether a monitor requested from ask has the line of one agent, and not that of
// others.
func shows(t *testing.T, ask *cluster.Agent, o api.MonitorOptions, of *cluster.Agent) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Bool
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	ended.Go(func() {
		lines, err := ask.Client.Agent().FollowLog(o, (&api.QueryOptions{}).WithContext(ctx)) // it returns with the first line
		if err != nil {
			t.Errorf("monitor %+v: %v", o, err)
			return
		}
		defer lines.Close()
		for s := bufio.NewScanner(lines); s.Scan(); {
			if strings.Contains(s.Text(), reloaded) {
				seen.Store(true)
			}
		}
	})
	harness.Within(t, 20*time.Second, fmt.Sprintf("the line of an agent in the monitor %+v", o), func() bool {
		reload(t, of)
		return seen.Load()
	})
}

// Any server streams the log of any server and any node, wherever the node is connected. A client
// streams its own.
func TestMonitorAcrossAgents(t *testing.T) {
	s := harness.StartServers(t)
	dir := harness.TempDir(t)
	var addrs []string
	for _, a := range s.All {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", a.RPC))
	}
	c := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-servers=" + strings.Join(addrs, ",")}})
	node, err := c.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range s.All {
		shows(t, s.All[0], api.MonitorOptions{ServerID: fmt.Sprintf("s%d.global", i)}, a)
		shows(t, a, api.MonitorOptions{NodeID: node}, c)
		shows(t, a, api.MonitorOptions{ServerID: "leader"}, s.All[s.Agreed()])
		shows(t, a, api.MonitorOptions{}, a)
	}
	shows(t, c, api.MonitorOptions{}, c)
	shows(t, c, api.MonitorOptions{NodeID: node}, c)
	shows(t, c, api.MonitorOptions{ServerID: "s1.global"}, s.All[1])
}

// The SDK of Nomad reads frames of the log, with heartbeats between them.
func TestSDKMonitor(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := c.Agent().Monitor(stop, &sdk.QueryOptions{Params: map[string]string{"log_level": "debug"}})
	reload(t, a)
	late := time.After(time.Minute)
	text := ""
	for !strings.Contains(text, reloaded) {
		select {
		case f := <-frames:
			text += string(f.Data)
		case err := <-errs:
			t.Fatal(err)
		case <-late:
			t.Fatalf("the log has no %q: %q", reloaded, text)
		}
	}
}
