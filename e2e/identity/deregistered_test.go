package identity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// countAtSignal is a task that prints, when it gets the signal to end, how many registrations of each service it has at
// the agent args[0]. It prints "waiting" before, over the connection that it uses again.
func countAtSignal(args []string) int {
	signalled := make(chan os.Signal, 1)
	ossignal.Notify(signalled, syscall.SIGINT, syscall.SIGTERM)
	count := func() (text string, err error) {
		for _, service := range args[1:] {
			n, err := registrations(args[0], service, os.Getenv("NOMAD_ALLOC_ID"))
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("%s %d\n", service, n)
		}
		return text, nil
	}
	_, err := count()
	if err == nil {
		fmt.Println("waiting")
		<-signalled
		var text string
		text, err = count()
		fmt.Print(text)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// registrations returns the number of registrations of a service by an allocation.
func registrations(agent, service, alloc string) (n int, err error) {
	resp, err := http.Get(agent + "/v1/service/" + service) //nolint:gosec,noctx // an agent of this test
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET /v1/service/%s: %s", service, resp.Status)
	}
	var list []struct{ AllocID string }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return 0, err
	}
	for _, r := range list {
		if r.AllocID == alloc {
			n++
		}
	}
	return n, nil
}

// TestDeregisteredBeforeSignal stops allocations whose group and task have a service. When the task gets its signal,
// no caller finds them any more.
func TestDeregisteredBeforeSignal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the driver raw_exec")
	}
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "raw.hcl")
	harness.WriteFile(t, cfg, harness.TestDrivers)
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "d"), "-config=" + cfg}})
	defer harness.PurgeAll(t, a)
	stop := map[string]func(job, alloc string) error{
		"job stop": func(job, _ string) error {
			_, _, err := a.Client.Jobs().Deregister(job, false, nil)
			return err
		},
		"alloc stop": func(_, alloc string) error {
			found, _, err := a.Client.Allocations().Info(alloc, nil)
			if err == nil {
				_, err = a.Client.Allocations().Stop(found, nil)
			}
			return err
		},
	}
	for name, how := range stop {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			services := []string{id + "-group", id + "-task"}
			al := harness.Register(t, a, signalledJob(t, id, a.Address(), services), "running")
			out := filepath.Join(dir, "d", "alloc", al.ID, "alloc", "logs", "t.stdout.0")
			harness.Within(t, harness.Patience, "the task waits", func() bool { return harness.Content(t, out) == "waiting" })
			for _, s := range services {
				harness.Within(t, harness.Patience, "registration "+s, func() bool {
					n, err := registrations(a.Address(), s, al.ID)
					return n == 1 && err == nil
				})
			}
			if err := how(id, al.ID); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("waiting\n%s 0\n%s 0", services[0], services[1])
			harness.Within(t, harness.Patience, "the task gets its signal", func() bool { return len(harness.Content(t, out)) >= len(want) })
			if got := harness.Content(t, out); got != want {
				t.Errorf("the task printed %q, want %q", got, want)
			}
		})
	}
}

// signalledJob returns a service job with a service of the group and one of the task.
func signalledJob(t *testing.T, id, agent string, services []string) *api.Job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job := rawTask(id, nil, self, append([]string{"signalled", agent}, services...)...)
	kind := "service"
	job.Type = &kind
	group := job.TaskGroups[0]
	group.RestartPolicy = nil
	group.Tasks[0].Privileged = true
	group.Services = []*api.Service{{Name: services[0], Provider: "nomad", Address: "192.0.2.1", PortLabel: "80"}}
	group.Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "p"}}}}
	group.Tasks[0].Services = []*api.Service{{Name: services[1], Provider: "nomad", PortLabel: "p"}}
	return job
}
