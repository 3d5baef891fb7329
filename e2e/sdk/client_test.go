package sdk_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/jobspec"
)

// The official SDK, on which other tools are built, registers a job, follows it to completion and
// reads its logs.
func TestOfficialSDK(t *testing.T) {
	g := harness.NewACLClient(t)
	client := g.Client
	rules, err := os.ReadFile("../../demo/hello.policy.hcl")
	if err != nil {
		t.Fatal(err)
	}
	g.CreatePolicy(t, "hello", string(rules), &sdk.JobACL{Namespace: "default", JobID: "hello"})
	for job, greeting := range map[string]string{"hello": "hello, job", "other": "not for hello"} {
		v := sdk.NewVariable("nomad/jobs/" + job)
		v.Items = sdk.VariableItems{"greeting": greeting}
		if _, _, err := client.Variables().Create(v, nil); err != nil {
			t.Fatal(err)
		}
	}
	job, err := client.Jobs().ParseHCL(demoJob(t), true)
	if err != nil {
		t.Fatalf("ParseHCL() = %v", err)
	}
	resp, _, err := client.Jobs().Register(job, nil)
	if err != nil {
		t.Fatalf("Register() = %v", err)
	}
	q := &sdk.QueryOptions{WaitTime: 5 * time.Second}
	for deadline := time.Now().Add(harness.Patience); ; {
		eval, meta, err := client.Evaluations().Info(resp.EvalID, q)
		if err != nil {
			t.Fatalf("Evaluations().Info() = %v", err)
		}
		if eval.Status == sdk.EvalStatusComplete {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("evaluation is %s", eval.Status)
		}
		q.WaitIndex = meta.LastIndex
	}
	alloc := sdkFinished(t, client, *job.ID)
	text := sdkLogs(t, client, alloc)
	if want := "nomad_job_id\":\"" + *job.ID; !harness.ContainsJSON(text, want) {
		t.Errorf("the log does not show the task's claims (%q):\n%s", want, text)
	}
	if !harness.ContainsJSON(text, "hello, job") || harness.ContainsJSON(text, "not for hello") {
		t.Errorf("the log does not show the variable of the job, or another's:\n%s", text)
	}
	if !harness.ContainsJSON(text, "denied: /etc/shadow") && os.Geteuid() == 0 {
		t.Errorf("the log does not show that /etc/shadow is out of reach:\n%s", text)
	}
}

// sdkFinished waits until the allocation of a job is complete.
func sdkFinished(t *testing.T, client *sdk.Client, job string) *sdk.Allocation {
	t.Helper()
	q := &sdk.QueryOptions{WaitTime: 5 * time.Second}
	for deadline := time.Now().Add(harness.Patience); ; {
		allocs, meta, err := client.Jobs().Allocations(job, false, q)
		if err != nil {
			t.Fatalf("Allocations() = %v", err)
		}
		if len(allocs) == 1 && allocs[0].ClientStatus == sdk.AllocClientStatusComplete {
			alloc, _, err := client.Allocations().Info(allocs[0].ID, nil)
			if err != nil {
				t.Fatalf("Allocations().Info() = %v", err)
			}
			return alloc
		}
		if time.Now().After(deadline) {
			for _, a := range allocs {
				t.Logf("allocation %s is %s: %+v", a.ID, a.ClientStatus, a.TaskStates["hello"])
			}
			t.Fatalf("job %s did not complete", job)
		}
		q.WaitIndex = meta.LastIndex
	}
}

func sdkLogs(t *testing.T, client *sdk.Client, alloc *sdk.Allocation) string {
	t.Helper()
	cancel := make(chan struct{})
	frames, errs := client.AllocFS().Logs(alloc, false, "hello", sdk.FSLogNameStdout, sdk.OriginStart, 0, cancel, nil)
	text, err := io.ReadAll(sdk.NewFrameReader(frames, errs, cancel))
	if err != nil {
		t.Fatalf("Logs() = %v", err)
	}
	return string(text)
}

// demoJob returns the job of the demo as HCL with its variables filled in.
func demoJob(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../demo/hello.nomad.hcl")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "nomad") // started under that name it is nomad
	if err := os.WriteFile(self, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := jobspec.Parse(jobspec.Config{Filename: "hello.nomad.hcl", Source: text, Vars: []string{"nomad=" + self},
		Strict: true}); err != nil {
		t.Fatalf("the demo job does not parse: %v", err)
	}
	return withDefault(string(text), self)
}

// withDefault adds a default to the variable "nomad" of a jobspec: routes that parse HCL accept no
// -var.
func withDefault(text, value string) string {
	return strings.Replace(text, "type        = string", "type        = string\n  default     = \""+value+"\"", 1)
}
