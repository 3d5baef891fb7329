package duties_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// subject is a driver with a task that runs until it is stopped.
type subject struct {
	name   string // of its jobs
	driver string
	needs  string              // program, "" for none
	config func(places) string // and further blocks of the task
	memory int
	count  int    // of devices
	begun  string // the line that the task writes when it starts
	shell  bool   // the task runs script
	volume bool   // the group has a CSI volume, to which the script writes too
	plugin bool   // the task is a CSI plugin
}

// places are where the tasks find things.
type places struct {
	url     string // of artifacts
	program string // of the CSI plugin
	storage string // directory of its storage system
}

// script writes a line and its allocation, and runs until it is stopped.
const script = "trap 'exit 0' INT TERM; echo $NOMAD_ALLOC_ID >> $NOMAD_ALLOC_DIR/data/seen; echo begun; while :; do sleep 0.1; done"

const begun = "begun\n"

// volumeScript is script for a task with a volume at /data.
const volumeScript = "echo $NOMAD_ALLOC_ID >>/data/seen || exit 1; " + script

// deviceCount is the number of devices of a node. A task of the column device holds all.
const deviceCount = 2

func subjects() []subject {
	inShell := func(places) string { return "config {\n " + harness.InShell(script) + "\n}\n" }
	return []subject{
		{name: "exec2", driver: "exec2", config: inShell, begun: begun, shell: true},
		{name: "exec", driver: "exec", config: inShell, begun: begun, shell: true},
		{name: "raw", driver: "raw_exec", config: inShell, begun: begun, shell: true},
		{name: "device", driver: "exec", config: inShell, begun: begun, shell: true, count: deviceCount},
		{name: "volume", driver: "exec", begun: begun, shell: true, volume: true, config: func(places) string {
			return "config {\n " + harness.InShell(volumeScript) + "\n}\nvolume_mount {\n volume = \"v\"\n destination = \"/data\"\n}\n"
		}},
		{name: "plugin", driver: "raw_exec", begun: begun, plugin: true, memory: 64, config: func(p places) string {
			run := fmt.Sprintf("echo begun; exec %s -root %s -node ${node.unique.name} -controller=false", p.program, p.storage)
			return fmt.Sprintf("csi_plugin {\n id = \"plugin\"\n type = \"node\"\n}\nconfig {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n}\n", run)
		}},
		{name: "java", driver: "java", needs: "java", begun: begun, shell: true, memory: 128, config: func(p places) string {
			return fmt.Sprintf("artifact {\n source = %q\n}\nconfig {\n class = %q\n class_path = \"/local\"\n jvm_options = [\"-Xmx32m\"]\n"+
				" args = [\"/bin/sh\", \"-c\", %q]\n}\n", p.url+"/"+testtask.JavaClass+".class", testtask.JavaClass, script)
		}},
		{name: "qemu", driver: "qemu", needs: "qemu-system-x86_64", begun: testtask.GuestGreeting, memory: 128, config: func(p places) string {
			return fmt.Sprintf("artifact {\n source = %q\n}\nconfig {\n image_path = \"local/disk\"\n graceful_shutdown = true\n}\n", p.url+"/disk")
		}},
	}
}

// usable returns the subjects whose programs this machine has.
func usable(t *testing.T) (out []subject) {
	t.Helper()
	for _, s := range subjects() {
		if _, err := exec.LookPath(s.needs); s.needs != "" && err != nil {
			if os.Getenv("NEEDS_JAVA") != "" && s.needs == "java" {
				t.Fatal(err)
			}
			t.Logf("without %s: %v", s.name, err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// job is the job of a subject.
type job struct {
	subject
	head    string // blocks of the group
	version string
	access  string // to the volume, "" for a single writer
}

// text returns the job. Its allocation prefers the first node.
func (j job) text(p places) string {
	device := ""
	if j.count > 0 {
		device = fmt.Sprintf("device \"example/node\" {\n count = %d\n }\n", j.count)
	}
	if j.volume {
		j.head += fmt.Sprintf("volume \"v\" {\n type = \"csi\"\n source = \"data\"\n access_mode = %q\n attachment_mode = \"file-system\"\n}\n",
			cmp.Or(j.access, "single-node-writer"))
	}
	task := fmt.Sprintf("task \"t\" {\n driver = %q\n kill_timeout = \"30s\"\n env {\n VERSION = %q\n }\n %s\n resources {\n"+
		" cpu = 20\n memory = %d\n %s }\n}\n",
		j.driver, j.version, j.config(p), max(j.memory, 32), device)
	return harness.Job(j.name, "", "affinity {\n attribute = \"${node.unique.name}\"\n value = \"first\"\n weight = 100\n}\n"+
		"restart {\n delay = \"1s\"\n}\nreschedule {\n delay = \"5s\"\n delay_function = \"constant\"\n unlimited = true\n}\n"+
		"migrate {\n min_healthy_time = \"100ms\"\n}\nupdate {\n min_healthy_time = \"100ms\"\n}\n"+
		"ephemeral_disk {\n size = 150\n sticky = true\n migrate = true\n}\n"+j.head+strings.ReplaceAll(task, "$$", "$"))
}
