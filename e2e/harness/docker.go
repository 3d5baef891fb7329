package harness

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// DockerTask returns a task of an instance of the driver that runs a script.
func DockerTask(driver, script, more string) string {
	return fmt.Sprintf("task \"t\" {\n driver = %q\n kill_timeout = \"2s\"\n config {\n image = %q\n command = \"sh\"\n"+
		" args = [\"-c\", %q]\n %s\n }\n resources {\n cpu = 50\n memory = 64\n }\n}\n",
		driver, testdocker.Image, script, more)
}

// InstanceJob writes the file of a job with a task.
func InstanceJob(t *testing.T, dir, id, task string) string {
	t.Helper()
	file := filepath.Join(dir, id+".nomad.hcl")
	WriteFile(t, file, Job(id, "", task))
	return file
}
