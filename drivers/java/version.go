package java

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// versionPatience is the time limit of the virtual machine for printing its version.
const versionPatience = 30 * time.Second

// attributes returns the version of the host's Java. It returns false if there is none.
func attributes(ctx context.Context) (map[string]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "-version").CombinedOutput()
	if err != nil {
		return nil, false
	}
	version, runtime, machine := parse(string(out))
	return map[string]string{"version": version, "runtime": runtime, "vm": machine}, true
}

// number is a version number in the first line.
var number = pattern.Lazy(`[.\d_]+`)

// parse parses the output of java -version: three lines, after one about options in the environment.
func parse(text string) (version, runtime, machine string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if strings.Contains(lines[0], "Picked up _JAVA_OPTIONS") {
		lines = lines[1:]
	}
	if len(lines) < 3 {
		return "", "", ""
	}
	return number().FindString(lines[0]), strings.TrimSpace(lines[1]), strings.TrimSpace(lines[2])
}
