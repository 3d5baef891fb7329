package harness

import (
	"fmt"
	"strings"
)

// Sandboxed returns an exec2 task with the config and further blocks.
func Sandboxed(config string, extra ...string) string {
	text := fmt.Sprintf("task \"t\" {\n driver = \"exec2\"\n config {\n %s\n }\n %s\n", config, strings.Join(extra, "\n"))
	if !strings.Contains(text, "resources {") {
		text += "resources {\n cpu = 100\n memory = 64\n }\n"
	}
	return text + "}\n"
}

// InShell returns the config of a task that runs a script with /bin/sh.
func InShell(script string) string {
	return fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]", strings.ReplaceAll(script, "${", "$${"))
}
