package java_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/java"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
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
	super := supervise.NewClient(filepath.Join(dir, "supervise"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := super.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		super.Close()
	})
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

// TestRun runs a class and a jar with the host's Java.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("java"); err != nil {
		if os.Getenv("NEEDS_JAVA") != "" {
			t.Fatal(err)
		}
		t.Skip("needs a Java runtime: apt-get install default-jre-headless")
	}
	d, dir := open(t)
	for i, options := range []block{
		{"class": "Hello", "class_path": "/local", "args": []string{"hello"}, "jvm_options": []string{"-Xmx64m"}},
		{"jar_path": "local/hello.jar", "args": []string{"hello"}, "jvm_options": []string{"-Xmx64m"}},
		{"jar_path": "hello.jar", "work_dir": "/local", "args": []string{"hello"}, "cap_drop": []string{"all"}},
	} {
		cfg := testtask.Config(t, dir, i+1)
		cfg.User, cfg.Limits = chroot.DefaultUser, drivers.LinuxResources{MemoryBytes: 512 << 20, CPUShares: 500, MHzPerCore: 2000}
		testtask.MakeDir(t, filepath.Join(cfg.TaskDir, "tmp"))
		for name, content := range map[string][]byte{"Hello.class": class(), "hello.jar": jar(t)} {
			if err := os.WriteFile(filepath.Join(cfg.LocalDir, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		v, err := drivers.Decode(options, d.TaskSpec())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Config = v
		if _, err := d.StartTask(t.Context(), cfg); err != nil {
			t.Fatalf("StartTask() = %v", err)
		}
		exit, err := d.WaitTask(t.Context(), cfg.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.DestroyTask(cfg.ID, false); err != nil {
			t.Error(err)
		}
		out, _ := os.ReadFile(filepath.Join(cfg.LogDir, "web.stdout.0"))
		errs, _ := os.ReadFile(filepath.Join(cfg.LogDir, "web.stderr.0"))
		if exit.ExitCode != 0 || string(out) != "hello\n" {
			t.Errorf("%v: exit %+v, stdout %q, stderr %s", options, exit, out, errs)
		}
	}
}

// class returns the class Hello, whose main method prints its first argument.
func class() []byte {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if text, ok := v.(string); ok { // a constant of type Utf8
				b.WriteByte(1)
				binary.Write(&b, binary.BigEndian, uint16(len(text))) //nolint:errcheck // to memory
				b.WriteString(text)
				continue
			}
			binary.Write(&b, binary.BigEndian, v) //nolint:errcheck // to memory
		}
	}
	const isClass, isField, isMethod, isName = uint8(7), uint8(9), uint8(10), uint8(12)
	put(uint32(0xcafebabe), uint16(0), uint16(49), uint16(20))
	put(isClass, uint16(2), "Hello", isClass, uint16(4), "java/lang/Object", "main", "([Ljava/lang/String;)V", "Code")
	put(isField, uint16(9), uint16(11), isClass, uint16(10), "java/lang/System", isName, uint16(12), uint16(13),
		"out", "Ljava/io/PrintStream;")
	put(isMethod, uint16(15), uint16(17), isClass, uint16(16), "java/io/PrintStream", isName, uint16(18), uint16(19),
		"println", "(Ljava/lang/String;)V")
	// public class Hello extends Object, without interfaces and fields, with one method
	put(uint16(0x21), uint16(1), uint16(3), uint16(0), uint16(0), uint16(1))
	// public static void main(String[]): System.out.println(args[0])
	code := []byte{0xb2, 0, 8, 0x2a, 3, 0x32, 0xb6, 0, 14, 0xb1}
	put(uint16(9), uint16(5), uint16(6), uint16(1), uint16(7), uint32(12+len(code)), uint16(3), uint16(1), uint32(len(code)))
	b.Write(code)
	put(uint16(0), uint16(0), uint16(0))
	return b.Bytes()
}

func jar(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"META-INF/MANIFEST.MF", []byte("Manifest-Version: 1.0\nMain-Class: Hello\n\n")}, {"Hello.class", class()}} {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write(f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
