package jobs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// store creates a directory that every user may write to.
func store(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(harness.Passable(t, harness.TempDir(t)), "store")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		harness.WriteFile(t, filepath.Join(dir, name), text)
		if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// volumeAgent is a dev agent with volumes.
func volumeAgent(t *testing.T, dir string) *cluster.Agent {
	t.Helper()
	harness.NeedsRoot(t)
	cfg := filepath.Join(harness.TempDir(t), "volumes.hcl")
	harness.WriteFile(t, cfg, harness.VolumesConfig(dir))
	return harness.DevAgent(t, "-config="+cfg)
}

func volume(source, extra string) string {
	return fmt.Sprintf("volume \"v\" {\n type = \"host\"\n source = %q\n %s\n}\n", source, extra)
}

func mount(destination, extra string) string {
	return fmt.Sprintf("volume_mount {\n volume = \"v\"\n destination = %q\n %s\n}\n", destination, extra)
}

// tries reads, writes and lists in a directory.
const tries = `cat "$D/in"; echo new >"$D/out" && echo WROTE; echo more >>"$D/in" && echo APPENDED; chmod 0600 "$D/in" 2>/dev/null && echo CHANGED; mkdir "$D/sub" && echo MADE; true`

func TestVolumesInTasks(t *testing.T) {
	dir := store(t, map[string]string{"in": "from the node\n"})
	a := volumeAgent(t, dir)
	for _, c := range []struct {
		name, group, mount, dir string
		writes                  bool
	}{
		{"written", volume("data", ""), mount("local/data", ""), "$NOMAD_TASK_DIR/data", true},
		{"shared directory", volume("data", ""), mount("${NOMAD_ALLOC_DIR}/vol", ""), "$NOMAD_ALLOC_DIR/vol", true},
		{"in tmp", volume("data", ""), mount("/tmp/vol", ""), "/tmp/vol", true},
		{"read only mount", volume("data", ""), mount("local/data", "read_only = true"), "$NOMAD_TASK_DIR/data", false},
		{"read only group", volume("data", "read_only = true"), mount("local/data", ""), "$NOMAD_TASK_DIR/data", false},
		{"read only node", volume("docs", "read_only = true"), mount("/srv", ""), "/srv", false},
		{"reader", volume("docs", `access_mode = "single-node-reader-only"`), mount("/srv", ""), "/srv", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := strings.ReplaceAll(c.name, " ", "-")
			os.Remove(filepath.Join(dir, "out"))
			os.RemoveAll(filepath.Join(dir, "sub"))
			id, _ := harness.Run(t, a, harness.Job(name, `type = "batch"`, harness.Once+c.group+unveiled("D="+c.dir+"; "+tries, c.mount)))
			text := harness.Log(a, harness.Await(t, a, id, "complete", 1)[0])
			if !strings.HasPrefix(text, "from the node\n") {
				t.Errorf("the task read %q", text)
			}
			if got := strings.Contains(text, "WROTE") && strings.Contains(text, "APPENDED") && strings.Contains(text, "MADE"); got != c.writes ||
				!c.writes && text != "from the node\n" {
				t.Errorf("the task wrote %q", text)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); (err == nil) != c.writes {
				t.Errorf("on the node: %v, want written %v", err, c.writes)
			}
			harness.WriteFile(t, filepath.Join(dir, "in"), "from the node\n")
		})
	}
}

// A volume is visible to the task that mounts it, not to its neighbour, and the node has no mount.
func TestVolumeIsTheTasksOwn(t *testing.T) {
	dir := store(t, map[string]string{"in": "x"})
	a := volumeAgent(t, dir)
	id, _ := harness.Run(t, a, harness.Job("own", `type = "batch"`, harness.Once+volume("data", "")+
		harness.Named("a", unveiled("ls $NOMAD_ALLOC_DIR/vol; touch $NOMAD_ALLOC_DIR/data/go; until [ -e $NOMAD_ALLOC_DIR/data/end ]; do sleep 0.02; done", mount("${NOMAD_ALLOC_DIR}/vol", "")))+
		harness.Named("b", unveiled("until [ -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done; ls -A $NOMAD_ALLOC_DIR/vol | wc -l >$NOMAD_ALLOC_DIR/data/seen; touch $NOMAD_ALLOC_DIR/data/end"))))
	al := harness.Await(t, a, id, "complete", 1)[0]
	if got := strings.TrimSpace(harness.SharedFile(t, a, al, "seen")); got != "0" {
		t.Errorf("the neighbour sees %s files", got)
	}
	if got := strings.TrimSpace(harness.Log(a, al)); got != "in" && got != "" {
		t.Errorf("the task sees %q", got)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), al.ID+"/alloc/vol") {
		t.Errorf("the node has the task's mount, or %v", err)
	}
}

// A failed mount has an event that names it.
func TestVolumeEvents(t *testing.T) {
	dir := store(t, nil)
	a := volumeAgent(t, dir)
	gone := func(name, want, group, task string) {
		t.Helper()
		id, _ := harness.Run(t, a, harness.Job(name, `type = "batch"`, harness.Once+group+task))
		al := harness.Await(t, a, id, "failed", 1)[0]
		if ev := harness.Event(t, al, "t", "Setup Failure"); !strings.Contains(ev.DisplayMessage, want) {
			t.Errorf("event %q, want %q", ev.DisplayMessage, want)
		}
	}
	gone("absent", "destination /nowhere/at/all does not exist on this node and is outside the task's directory", volume("data", ""),
		unveiled("true", mount("/nowhere/at/all", "")))
	gone("hides", "would hide the task's own directories", volume("data", ""), unveiled("true", mount("${NOMAD_ALLOC_DIR}", "")))
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	gone("away", `host volume "data" of this node: open `+dir+": no such file or directory", volume("data", ""),
		unveiled("true", mount("local/v", "")))
	if err := os.Symlink("/etc", dir); err != nil {
		t.Fatal(err)
	}
	gone("linked", "a symbolic link was added to the path after the agent started", volume("data", ""), unveiled("true", mount("local/v", "")))
}

// Allocations are placed on the node with the volume, and wait for such a node.
func TestVolumePlacement(t *testing.T) {
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, "")
	harness.Passable(t, f.Dir)
	dir := store(t, map[string]string{"in": "x"})
	f.Join("bare", "client {\n}\n")
	defer f.Purge()
	task := unveiled("exec sleep 3600", mount("local/v", ""), `kill_timeout = "1s"`)
	id, eval := harness.Run(t, f.Server, harness.Job("place", `type = "service"`, "count = 2\n"+volume("data", "")+task))
	harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), `missing compatible host volume "data"`)
	client := f.Join("store", harness.VolumesConfig(dir))
	node, _, err := harness.SDKClient(t, f.Server, "").Nodes().Info(harness.NodeID(t, client), nil)
	if err != nil || len(node.HostVolumes) != 3 || node.HostVolumes["docs"].Path != dir || !node.HostVolumes["docs"].ReadOnly ||
		node.HostVolumes["data"].ReadOnly {
		t.Errorf("the node has %+v, %v", node.HostVolumes, err)
	}
	if got := harness.CountByNode(harness.Await(t, f.Server, id, "running", 2)); got["store"] != 2 {
		t.Errorf("placed on %v, want the node that has the volume", got)
	}
	id, eval = harness.Run(t, f.Server, harness.Job("place-each", `type = "service"`, "count = 2\n"+volume("data", "per_alloc = true")+task))
	harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), `missing compatible host volume "data[0]"`)
	if al := harness.Await(t, f.Server, id, "running", 1)[0]; al.Name != "place-each.g[1]" || al.NodeName != "store" {
		t.Errorf("%s runs on %s", al.Name, al.NodeName)
	}
	_, eval = harness.Run(t, f.Server, harness.Job("place-ro", `type = "service"`, volume("docs", "")+task))
	harness.CheckBlocked(t, harness.Evaluated(t, f.Server, eval), `missing compatible host volume "docs"`)
}

// A caller without the right to mount a volume cannot register a job that mounts it.
func TestVolumeRights(t *testing.T) {
	g := harness.NewACLClient(t)
	g.CreatePolicy(t, "submit", `namespace "default" { policy = "write" }`, nil)
	g.CreatePolicy(t, "look", `host_volume "data*" { policy = "read" }`, nil)
	g.CreatePolicy(t, "use", `host_volume "data*" { policy = "write" }`, nil)
	for _, c := range []struct {
		name, volume string
		policies     []string
		allowed      bool
	}{
		{"no right", volume("data", "read_only = true"), []string{"submit"}, false},
		{"reads", volume("data", "read_only = true"), []string{"submit", "look"}, true},
		{"reads by its access mode", volume("data", `access_mode = "single-node-reader-only"`), []string{"submit", "look"}, true},
		{"writes with a right to read", volume("data", ""), []string{"submit", "look"}, false},
		{"writes", volume("data", ""), []string{"submit", "use"}, true},
		{"another volume", volume("other", ""), []string{"submit", "use"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := g.As(t, c.policies...)
			j, err := client.Jobs().ParseHCL(harness.Job("rights", `type = "batch"`, c.volume+unveiled("true", mount("local/v", ""))), true)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = client.Jobs().Register(j, nil)
			if c.allowed && err != nil {
				t.Errorf("Register() = %v", err)
			}
			if !c.allowed {
				harness.WantError(t, "Register()", err, "403", "Permission denied")
			}
		})
	}
}

// An agent whose volume does not exist does not start, and names the volume.
func TestMissingVolume(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "v.hcl")
	harness.WriteFile(t, cfg, harness.VolumesConfig(filepath.Join(dir, "nowhere")))
	bin, err := exec.LookPath("nomad")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a, err := cluster.Start(t.Context(), cluster.Options{Bin: bin, Dir: dir, Args: []string{"-dev", "-config=" + cfg}, Log: log})
	if err == nil {
		t.Fatal("the agent started", a.Stop())
	}
	out, _ := os.ReadFile(log.Name())
	if !strings.Contains(string(out), `host volume "data"`) || !strings.Contains(string(out), "remove the host_volume block") {
		t.Errorf("agent: %v\n%s", err, out)
	}
}

// A link in a volume does not redirect a grant: if a path of the sandbox passes through the volume,
// the target of the link is not granted.
func TestVolumeLinksGrantNothing(t *testing.T) {
	dir := store(t, nil)
	if err := os.Symlink("/", filepath.Join(dir, "certs")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/etc/ssl/certs"); err != nil {
		t.Skip("this machine has no /etc/ssl/certs")
	}
	a := volumeAgent(t, dir)
	id, _ := harness.Run(t, a, harness.Job("astray", `type = "service"`, harness.Once+volume("data", "")+
		unveiled("cat /etc/passwd; cat /etc/ssl/certs/etc/passwd; echo tried; exec sleep 3600", mount("/etc/ssl", ""), `kill_timeout = "1s"`)))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.Within(t, harness.Patience, "the task has tried", func() bool { return strings.Contains(harness.Log(a, al), "tried") })
	if text := harness.Log(a, al); strings.Contains(text, "root:") {
		t.Errorf("the task read a file that was not granted: %q", text)
	}
	session := exec.Command(a.Bin, "alloc", "exec", al.ID, "/bin/cat", "/etc/passwd", "/etc/hosts")
	session.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
	out, err := session.CombinedOutput()
	if err == nil || strings.Contains(string(out), "root:") || !strings.Contains(string(out), "localhost") {
		t.Errorf("a session: %v, %q", err, out)
	}
}
