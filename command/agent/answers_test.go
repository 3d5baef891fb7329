package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// asked sends a request and returns the status, the index and the body of the answer.
func asked(t *testing.T, a *agent.Agent, token, path string) (code int, index, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+a.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-Nomad-Index"), text.String()
}

// The answers have the indexes, statuses and texts that the tests of the SDK of Nomad check.
func TestAnswersOfNomad(t *testing.T) {
	a, stop := run(t, "-dev", "-config", write(t, free+"acl { enabled = true }\n"))
	defer stop()
	var root secret
	testpace.Until(t, "there is a first token", func() bool { // the leader may not be ready
		code, text := as(t, a, "", "PUT", "/v1/acl/bootstrap", "")
		return code == http.StatusOK && json.Unmarshal([]byte(text), &root) == nil
	})
	var nodes []struct{ Status string }
	testpace.Until(t, "the node is ready", func() bool {
		code, text := as(t, a, root.SecretID, "GET", "/v1/nodes", "")
		return code == http.StatusOK && json.Unmarshal([]byte(text), &nodes) == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
	for _, path := range []string{"/v1/acl/policies", "/v1/acl/roles", "/v1/acl/auth-methods", "/v1/acl/binding-rules",
		"/v1/volumes?type=host", "/v1/scaling/policies"} {
		if code, index, text := asked(t, a, root.SecretID, path); code != http.StatusOK || index != "1" || text != "[]" {
			t.Errorf("%s: %d, index %s, %s, want an empty list at 1", path, code, index, text)
		}
	}
	testpace.Until(t, "the plugins have the index of the nodes", func() bool {
		_, want, _ := asked(t, a, root.SecretID, "/v1/nodes")
		code, index, text := asked(t, a, root.SecretID, "/v1/plugins?type=csi")
		n, err := strconv.Atoi(index)
		return code == http.StatusOK && text == "[]" && index == want && err == nil && n > 1
	})
	for _, path := range []string{"/v1/job/none/versions", "/v1/acl/policy/none"} {
		if code, index, text := asked(t, a, root.SecretID, path); code != http.StatusNotFound || index != "0" && index != "" {
			t.Errorf("%s: %d, index %s, %s, want 404 at 0", path, code, index, text)
		}
	}
	if code, _, text := asked(t, a, root.SecretID, "/v1/agent/pprof/goroutine?server_id=none"); code != http.StatusInternalServerError {
		t.Errorf("a profile of an unknown server: %d %s", code, text)
	}
	if code, text := as(t, a, root.SecretID, "PUT", "/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm": "best"}`); code !=
		http.StatusBadRequest || !strings.HasPrefix(text, "Invalid request") {
		t.Errorf("an unknown algorithm: %d %s", code, text)
	}
	for query, want := range map[string]string{
		"&plain=true":               `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S* \[[A-Z]+\] {1,2}[a-z.]+: .`,
		"&plain=true&log_json=true": `^\{"@level":"[a-z]+","@message":".*"@module":"[a-z.]+","@timestamp":"\d{4}-`,
	} {
		if line := monitored(t, a, root.SecretID, query); !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("the monitor with %s sends %q", query, line)
		}
	}
}

// monitored returns the first line of the monitor of an agent.
func monitored(t *testing.T, a *agent.Agent, token, query string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.Addr()+"/v1/agent/monitor?log_level=trace"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", token)
	var logging sync.WaitGroup
	defer logging.Wait()
	defer cancel()
	logging.Go(func() { logJobs(ctx, t, a, token) })
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// logJobs runs short jobs, about which the agent logs lines, until ctx ends.
func logJobs(ctx context.Context, t *testing.T, a *agent.Agent, token string) {
	for n := 0; ; n++ {
		body := fmt.Sprintf(`{"Job": {"ID": "logged-%d", "Name": "logged", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [
			{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1ms"}, "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}}`, n)
		if code, text := as(t, a, token, "PUT", "/v1/jobs", body); code != http.StatusOK {
			t.Errorf("register: %d %s", code, text)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// The network status of a running allocation is not null, whatever networks its group has.
func TestNetworkStatus_OfRunning(t *testing.T) {
	a, stop := run(t, "-dev", "-config", write(t, free))
	defer stop()
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(a) == 1 })
	submit(t, a, `{"run_for": "1h"}`)
	testpace.Until(t, "the job runs", func() bool { return allocStatus(a) == "running" })
	var stubs []struct{ ID string }
	if err := get(a, "/v1/job/j/allocations", &stubs); err != nil || len(stubs) != 1 {
		t.Fatal(stubs, err)
	}
	var alloc map[string]any
	if err := get(a, "/v1/allocation/"+stubs[0].ID, &alloc); err != nil || alloc["NetworkStatus"] == nil {
		t.Errorf("the network status is %v, %v", alloc["NetworkStatus"], err)
	}
}
