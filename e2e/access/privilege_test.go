package access

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// writers returns callers that may submit jobs in prod, with and without the right to run privileged
// tasks.
func (h *house) writers() []caller {
	const write = `namespace "prod" { policy = "write" }`
	all := []caller{
		{name: "read only", token: h.token(&api.ACLToken{Policies: []string{"reader"}})},
		{name: "workload with write", token: h.workloads["mi"]},
	}
	for i, c := range [][2]string{
		{"write", write},
		{"write, privileged elsewhere", write + "\nnamespace \"mine\" { capabilities = [\"privileged-execution\"] }"},
		{"write, privileged everywhere else", write + "\nnamespace \"*\" { capabilities = [\"privileged-execution\"] }"},
		{"privileged only", `namespace "prod" { capabilities = ["privileged-execution"] }`},
		{"write and privileged", "namespace \"prod\" {\n policy = \"write\"\n capabilities = [\"privileged-execution\"]\n}"},
	} {
		name := fmt.Sprintf("writer-%d", i)
		h.policy(name, c[1], "")
		all = append(all, caller{name: c[0], token: h.token(&api.ACLToken{Policies: []string{name}})})
	}
	h.policy("of-mi", write, "mi")
	all = append(all, caller{name: management, token: h.token(&api.ACLToken{Type: "management"})})
	for i := range all {
		all[i].query, all[i].pool, all[i].http = prod, h.pool(h.clientFiles), h.web(h.clientFiles)
	}
	return all
}

// TestPrivilegedTasks calls the methods and routes that put a job into effect, as callers that may
// submit jobs, with and without a privileged task.
func TestPrivilegedTasks(t *testing.T) {
	h := open(t)
	for id, driver := range map[string]string{"parent": "exec2", "parent-privileged": "raw_exec"} {
		_, _, err := h.api.Jobs().Register(h.parsed(id, driver, "  parameterized {}\n"), nil)
		h.must(err)
	}
	callers := h.writers()
	m := newMatrix(callers)
	table := endpoint.New(endpoint.Config{}).Methods()
	for _, method := range table {
		for suffix, driver := range map[string]string{"": "exec2", "-privileged": "raw_exec"} {
			req := h.effect(method.Name, driver, suffix)
			if req == nil {
				continue
			}
			row := method.Name + strings.Replace(suffix, "-", ", ", 1)
			m.row(row, "")
			for _, c := range callers {
				m.set(row, c.name, h.answer(method, c, req))
			}
		}
	}
	for path, parent := range map[string]string{
		"/v1/jobs":                 "",
		"/v1/job/j/plan":           "",
		"/v1/validate/job":         "",
		"/v1/job/:parent/dispatch": "parent",
	} {
		for suffix, driver := range map[string]string{"": "exec2", "-privileged": "raw_exec"} {
			row := "PUT " + path + strings.Replace(suffix, "-", ", ", 1)
			m.row(row, "")
			body := `{"Job": ` + jobText(driver) + `}`
			if parent != "" {
				body = `{}`
			}
			for _, c := range callers {
				m.set(row, c.name, h.put(c, strings.Replace(path, ":parent", parent+suffix, 1), body))
			}
		}
	}
	m.sane(t, nil)
	m.compare(t, "privilege")
}

// parsed returns a parameterized job in prod, privileged with raw_exec.
func (h *house) parsed(id, driver, more string) *api.Job {
	h.t.Helper()
	job, err := h.api.Jobs().ParseHCL(fmt.Sprintf(`job %q {
  type      = "batch"
  namespace = %q
%s
  group "g" {
    count = 0
    task "t" {
      driver     = %q
      privileged = %t
      config {
        command = "/bin/true"
      }
    }
  }
}`, id, prod, more, driver, driver == "raw_exec"), true)
	h.must(err)
	return job
}

// effect returns a request of a method that puts a job into effect, nil for other methods.
func (h *house) effect(method, driver, suffix string) rpc.Request {
	job := &nomad.Job{
		ID:          "j",
		Name:        "j",
		Namespace:   prod,
		Type:        nomad.JobTypeBatch,
		Datacenters: []string{"*"},
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: 0, Tasks: []*nomad.Task{{Name: "t", Driver: driver, Privileged: suffix != "",
				Config: map[string]any{"command": "/bin/true"}}}}},
	}
	switch method {
	case "Job.Register":
		return &message.JobRegisterRequest{Job: job}
	case "Job.Plan":
		return &message.JobPlanRequest{Job: job}
	case "Job.Validate":
		return &message.JobValidateRequest{Job: job}
	case "Job.Dispatch":
		return &message.JobDispatchRequest{JobID: "parent" + suffix}
	}
	return nil
}

// answer calls a method and returns the status.
func (h *house) answer(m rpc.Method, c caller, req rpc.Request) string {
	h.t.Helper()
	w := req.(interface{ Write() *message.WriteRequest }).Write()
	w.Region, w.AuthToken, w.Namespace = "global", c.token, prod
	var out any
	err := c.pool.Call(h.t.Context(), h.rpcAddr(), m.Name, req, &out)
	h.names(c, m.Name, status(err), fmt.Sprint(err))
	return status(err)
}

// put sends a body to a route of the client, which forwards it, and returns the status.
func (h *house) put(c caller, path, body string) string {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPut, h.client.Address()+path+"?namespace="+prod, strings.NewReader(body))
	h.must(err)
	req.Header.Set("X-Nomad-Token", c.token)
	resp, err := c.http.Do(req)
	h.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	h.must(err)
	h.names(c, path, fmt.Sprint(resp.StatusCode), string(text))
	return fmt.Sprint(resp.StatusCode)
}

// names checks that a refusal of a caller that may submit jobs names the task and the capability.
func (h *house) names(c caller, what, code, text string) {
	h.t.Helper()
	if code == "403" && strings.HasPrefix(c.name, "write") &&
		(!strings.Contains(text, `task "t" of group "g" is privileged`) || !strings.Contains(text, `privileged-execution in namespace "prod"`)) {
		h.t.Errorf("%s as %s: %s", what, c.name, text)
	}
}

// jobText returns a job without allocations as JSON, privileged with raw_exec.
func jobText(driver string) string {
	return fmt.Sprintf(`{"ID": "j", "Name": "j", "Namespace": "prod", "Type": "batch", "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Count": 0,
		"Tasks": [{"Name": "t", "Driver": %q, "Privileged": %t, "Config": {"command": "/bin/true"}}]}]}`, driver, driver == "raw_exec")
}
