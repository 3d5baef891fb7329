package security_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// TestDockerOptionsUnderAttack registers jobs with options of docker that the daemon reads in another way than the agent,
// or with which it gives rights of the node. None needs more than the right to submit jobs. Each is refused.
func TestDockerOptionsUnderAttack(t *testing.T) {
	daemon := testdocker.Start(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "docker.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n }\n}\nserver {\n privileged = \"explicit\"\n}\n", daemon.Endpoint(),
		testdocker.Pause))
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			"-config=" + cfg}})
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	hard := "cap_drop = [\"all\"]\n"
	nnp := hard + "security_opt = [\"no-new-privileges\"]\n"
	task := func(top, config string) string {
		return fmt.Sprintf("task \"t\" {\n driver = \"docker\"\n isolation = \"restricted\"\n kill_timeout = \"2s\"\n %s\n config {\n image = %q\n command = \"sh\"\n args = [\"-c\", %q]\n %s\n }\n resources {\n cpu = 50\n memory = 64\n }\n}\n",
			top, testdocker.Image, "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; while :; do sleep 1; done", config)
	}
	for name, c := range map[string]struct{ top, config, want string }{
		"user +0":              {`user = "+0"`, nnp, "neither a name nor a number"},
		"user -0":              {`user = "-0"`, nnp, "neither a name nor a number"},
		"group +0":             {`user = "1000:+0"`, nnp, "neither a name nor a number"},
		"group 0":              {`user = "1000:0"`, nnp, "an ordinary user"},
		"group_add +0":         {`user = "1000"`, nnp + `group_add = ["+0"]`, "neither a name nor a number"},
		"group_add 0":          {`user = "1000"`, nnp + `group_add = ["0"]`, "an ordinary user"},
		"group_add, number":    {`user = "1000"`, nnp + `group_add = [0]`, "an ordinary user"},
		"no-new-privileges=0":  {`user = "1000"`, hard + `security_opt = ["no-new-privileges=0"]`, "invalid security_opt"},
		"no-new-privileges:f":  {`user = "1000"`, hard + `security_opt = ["no-new-privileges:f"]`, "invalid security_opt"},
		"given twice":          {`user = "1000"`, hard + `security_opt = ["no-new-privileges", "no-new-privileges=false"]`, "given twice"},
		"SELinux type":         {`user = "1000"`, hard + `security_opt = ["no-new-privileges", "label=type:spc_t"]`, "needs privilege"},
		"AppArmor profile":     {`user = "1000"`, hard + `security_opt = ["no-new-privileges", "apparmor=podman"]`, "needs privilege"},
		"writable-cgroups":     {`user = "1000"`, hard + `security_opt = ["no-new-privileges", "writable-cgroups=true"]`, "needs privilege"},
		"spared by the kernel": {`user = "1000"`, nnp + `oom_score_adj = -1000`, "needs privilege"},
		"real-time priority":   {`user = "1000"`, nnp + "ulimit {\n rtprio = \"99\"\n}", "needs privilege"},
		"network of a task":    {`user = "1000"`, nnp + `network_mode = "container:other"`, "not served: network_mode"},
		"spelling of host":     {`user = "1000"`, nnp + `network_mode = "HOST"`, "is neither host, none, bridge, default nor"},
		"namespace by path":    {`user = "1000"`, nnp + `network_mode = "ns:/proc/1/ns/net"`, "is neither host, none, bridge, default nor"},
		"path of the API":      {`user = "1000"`, nnp + `network_mode = "../networks/host"`, "is neither host, none, bridge, default nor"},
		"name of a domain":     {`user = "1000"`, nnp + "network_mode = \"shared\"\nnetwork_aliases = [\"registry.example\"]", "cannot be a name in network"},
		"MAC of the node":      {`user = "1000"`, nnp + "network_mode = \"host\"\nmac_address = \"02:68:b3:29:da:98\"", "mac_address needs a network"},
		"MAC of a group":       {`user = "1000"`, nnp + `mac_address = "ff:ff:ff:ff:ff:ff"`, "not the address of one interface"},
		"storage of others":    {`user = "1000"`, nnp + "storage_opt = {\n \"dm.basesize\" = \"1T\"\n}", "not served: storage_opt"},
		"sysctl of the node":   {`user = "1000"`, nnp + "sysctl = {\n \"kernel.core_pattern\" = \"|/x\"\n}", "not served: sysctl"},
	} {
		t.Run(name, func(t *testing.T) {
			file := harness.InstanceJob(t, dir, "hostile", task(c.top, c.config))
			out, err := harness.Command(t, a, "job", "run", "-detach", file)
			if err == nil || !strings.Contains(strings.Join(strings.Fields(out), " "), c.want) {
				t.Errorf("job run = %v, want %q:\n%s", err, c.want, out)
			}
		})
	}
	file := harness.InstanceJob(t, dir, "left",
		"network {\n mode = \"bridge\"\n egress {\n allow = []\n }\n}\n"+task(`user = "1000"`, nnp+`network_mode = "host"`))
	if out, err := harness.Command(t, a, "job", "run", "-detach", file); err == nil ||
		!strings.Contains(out, "isolate and egress of the group would not apply") {
		t.Errorf("job run with egress and network_mode = %v\n%s", err, out)
	}
	harness.WriteFile(t, filepath.Join(dir, "ns.hcl"), "name = \"team\"\ncapabilities {\n disabled_network_modes = [\"bridge\"]\n}\n")
	if out, err := harness.Command(t, a, "namespace", "apply", filepath.Join(dir, "ns.hcl")); err != nil {
		t.Fatalf("namespace apply: %v\n%s", err, out)
	}
	file = harness.InstanceJob(t, dir, "moded", task(`user = "1000"`, nnp+`network_mode = "default"`))
	if out, err := harness.Command(t, a, "job", "run", "-detach", "-namespace=team", file); err == nil ||
		!strings.Contains(out, `network_mode "bridge", which is not allowed`) {
		t.Errorf("job run in a namespace without bridges = %v\n%s", err, out)
	}

	// A logger is decided by the node.
	harness.Run(t, a, harness.Job("logger", `type = "batch"`,
		harness.Once+task(`user = "1000"`, nnp+"logging {\n type = \"syslog\"\n config {\n syslog-address = \"unix:///run/x.sock\"\n }\n}")))
	failed := harness.Await(t, a, "logger", "failed", 1)[0]
	if text := harness.Event(t, failed, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(text,
		`logging type "syslog" is not allowed`) {
		t.Errorf("events of the task with a logger: %s", text)
	}
	// An ordinary user, as a number that the image does not have, and as a name.
	for user, want := range map[string]string{"4711": "4711\n4711\n4711\nNoNewPrivs:\t1\n", "app": "1000\n1000\n1000\nNoNewPrivs:\t1\n"} {
		id := "good-" + user
		harness.Run(t, a, harness.Job(id, "", task(fmt.Sprintf("user = %q\n identity {\n isolation = true\n }", user),
			nnp+`network_mode = "none"`)))
		al := harness.Await(t, a, id, "running", 1)[0]
		harness.Within(t, harness.Patience, "the output of "+id, func() bool { return harness.Log(a, al) == want })
		if got := al.TaskStates["t"].Isolation; got != "restricted" {
			t.Errorf("%s: isolation %q", id, got)
		}
	}
}
