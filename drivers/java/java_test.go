package java_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/java"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

type block = map[string]any

func TestParse(t *testing.T) {
	const three = "openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment (build 17)\n" +
		"OpenJDK 64-Bit Server VM (build 17, mixed mode)\n"
	parts := []string{"17.0.15", "OpenJDK Runtime Environment (build 17)", "OpenJDK 64-Bit Server VM (build 17, mixed mode)"}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"openjdk":    {three, parts},
		"options":    {"Picked up _JAVA_OPTIONS: -Xmx1g\n" + three, parts},
		"underscore": {"java version \"1.8.0_72\"\nA\nB", []string{"1.8.0_72", "A", "B"}},
		"two lines":  {"java version \"1\"\nA\n", []string{"", "", ""}},
		"empty":      {"", []string{"", "", ""}},
	} {
		version, runtime, machine := java.Parse(tc.text)
		if got := []string{version, runtime, machine}; !slices.Equal(got, tc.want) {
			t.Errorf("%s: parse() = %q, want %q", name, got, tc.want)
		}
	}
}

// TestCommand checks the order of the arguments, and the errors of a config block.
func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want string
		err  string
	}{
		"jar": {block{"jar_path": "local/x.jar", "jvm_options": []string{"-Xmx1g", "-Xms1g"}, "args": []string{"a", "b"}},
			"-Xmx1g -Xms1g -jar local/x.jar a b", ""},
		"class":           {block{"class": "Main", "class_path": "/local/lib", "args": []string{"a"}}, "-cp /local/lib Main a", ""},
		"both":            {block{"class": "Main", "jar_path": "x.jar", "class_path": "y"}, "-cp y -jar x.jar Main", ""},
		"none":            {block{"class_path": "y"}, "", "failed driver config validation: jar_path or class must be specified"},
		"work_dir before": {block{"work_dir": "x"}, "", "failed driver config validation: work_dir must be an absolute path: x"},
		"mode before": {block{"work_dir": "x", "pid_mode": "y"}, "",
			`failed driver config validation: pid_mode must be "private" or "host", got "y"`},
		"unknown": {block{"command": "x"}, "", `unknown argument "command"`},
	} {
		v, err := drivers.Decode(tc.give, java.Kind().TaskSpec)
		var c chroot.Command
		if err == nil {
			c, err = java.Decode(v)
		}
		got, failed := strings.Join(c.Args, " "), tc.err != "" && err != nil && strings.Contains(err.Error(), tc.err)
		if tc.err == "" && (err != nil || got != tc.want) || tc.err != "" && !failed {
			t.Errorf("%s: %q, %v, want %q and the error %q", name, got, err, tc.want, tc.err)
		}
		if err := java.Kind().CheckTask("", tc.give); (err == nil) != (tc.err == "") {
			t.Errorf("%s: CheckTask() = %v", name, err)
		}
	}
}

func open(t *testing.T) (*chroot.Driver, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and control groups")
	}
	dir := testtask.OpenDir(t)
	super := testtask.Supervisor(t, dir)
	return java.New(chroot.Config{Name: java.Name, Supervisor: super}), dir
}

// TestFingerprint checks the attributes with a program that prints a version, fails, or does not exist.
func TestFingerprint(t *testing.T) {
	d, dir := open(t)
	for name, tc := range map[string]struct {
		script string
		health drivers.Health
		want   map[string]string
	}{
		"version": {"#!/bin/sh\n[ $1 = -version ] && printf 'java version \"11.0.2\"\\nR\\nV\\n' >&2\n", drivers.HealthHealthy,
			map[string]string{"driver.java": "1", "driver.java.version": "11.0.2", "driver.java.runtime": "R", "driver.java.vm": "V"}},
		"fails":  {"#!/bin/sh\nexit 1\n", drivers.HealthUndetected, nil},
		"absent": {"", drivers.HealthUndetected, nil},
	} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if tc.script != "" {
			if err := os.WriteFile(filepath.Join(path, "java"), []byte(tc.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", path)
		got := <-d.Fingerprint(t.Context())
		if got.Health != tc.health || len(got.Attributes) != len(tc.want) {
			t.Errorf("%s: Fingerprint() = %+v, want %s and %v", name, got, tc.health, tc.want)
		}
		for key, value := range tc.want {
			if got.Attributes[key] != value {
				t.Errorf("%s: %s = %q, want %q", name, key, got.Attributes[key], value)
			}
		}
	}
}

func needsJava(t *testing.T) {
	t.Helper()
	testpace.Slow(t, "starts Java virtual machines")
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and control groups")
	}
	if _, err := exec.LookPath("java"); err != nil {
		if os.Getenv("NEEDS_JAVA") != "" {
			t.Fatal(err)
		}
		t.Skip("needs a Java runtime: apt-get install default-jre-headless")
	}
}

// prepare makes the directories of a task, with the class and the jar in the local one.
func prepare(t testing.TB, cfg *drivers.TaskConfig) {
	t.Helper()
	cfg.User, cfg.Limits = chroot.DefaultUser, drivers.LinuxResources{MemoryBytes: 512 << 20, CPUShares: 500, MHzPerCore: 2000}
	testtask.MakeDir(t, filepath.Join(cfg.TaskDir, "tmp"))
	for name, content := range map[string][]byte{testtask.JavaClass + ".class": testtask.JavaProgram(), "run.jar": testtask.JavaArchive(t)} {
		if err := os.WriteFile(filepath.Join(cfg.LocalDir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// decoded returns the config block of a task.
func decoded(t testing.TB, options block) cty.Value {
	t.Helper()
	v, err := drivers.Decode(options, java.Kind().TaskSpec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRun runs a class and a jar with the host's Java.
func TestRun(t *testing.T) {
	needsJava(t)
	d, dir := open(t)
	args := []string{"echo", "hello"}
	for i, options := range []block{
		{"class": testtask.JavaClass, "class_path": "/local", "args": args, "jvm_options": []string{"-Xmx64m"}},
		{"jar_path": "local/run.jar", "args": args, "jvm_options": []string{"-Xmx64m"}},
		{"jar_path": "run.jar", "work_dir": "/local", "args": args, "cap_drop": []string{"all"}},
	} {
		cfg := testtask.Config(t, dir, i+1)
		prepare(t, cfg)
		cfg.Config = decoded(t, options)
		if out := testtask.Run(t, d, cfg); out.ExitCode != 0 || out.Stdout != "hello\n" {
			t.Errorf("%v: exit %+v, stdout %q, stderr %s", options, out.ExitResult, out.Stdout, out.Stderr)
		}
	}
}
