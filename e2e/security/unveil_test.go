package security_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A job unveils a directory below a volume by its path on the host. A task that may write to the
// volume replaces that directory with a link to a directory of root. Its restart does not follow
// the link.
func TestUnveilRedirected(t *testing.T) {
	harness.NeedsRoot(t)
	dir := harness.OutsideTmp(t)
	volume, secret := filepath.Join(dir, "volume"), filepath.Join(dir, "secret")
	conf := filepath.Join(volume, "conf")
	if err := errors.Join(os.Mkdir(volume, 0o777), os.Chmod(volume, 0o777),
		os.Mkdir(conf, 0o755), os.Mkdir(secret, 0o755)); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(conf, "f"), "legitimate\n")
	harness.WriteFile(t, filepath.Join(secret, "f"), harness.Canary+"\n")
	if err := errors.Join(os.Chmod(conf+"/f", 0o644), os.Chmod(secret+"/f", 0o644)); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "agent.hcl")
	harness.WriteFile(t, cfg, harness.VolumesConfig(volume)+"plugin \"exec2\" {\n config {\n unveil_by_task = true\n }\n}\n")
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	t.Cleanup(func() { harness.PurgeAll(t, a) })

	job := harness.OneTask("redirect", "/bin/sh", "-c",
		"cat "+conf+"/f; cd local/vol && mv conf was && ln -s "+secret+" conf && echo planted; exit 1")
	attempts, delay := 1, time.Millisecond
	group := job.TaskGroups[0]
	group.RestartPolicy.Attempts, group.RestartPolicy.Delay = &attempts, &delay
	group.Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
	task := group.Tasks[0]
	source, at := "v", "local/vol"
	task.VolumeMounts = []*api.VolumeMount{{Volume: &source, Destination: &at}}
	task.Config["unveil"] = []string{"r:" + conf}
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	var al *api.AllocationListStub
	harness.Within(t, 30*time.Second, "the allocation has failed", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("redirect", true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		al = allocs[0]
		return al.ClientStatus == api.AllocClientStatusFailed
	})
	if text := harness.Log(a, al); text != "legitimate\nplanted\n" {
		t.Errorf("the task wrote %q, want what its volume held, and one start", text)
	}
	named := false
	for _, ev := range al.TaskStates["t"].Events {
		named = named || strings.Contains(ev.DisplayMessage, "symbolic link")
	}
	if !named {
		t.Errorf("events = %+v, want one that names the link", al.TaskStates["t"].Events)
	}
}
