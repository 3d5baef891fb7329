package exec2_test

import (
	"os"
	"testing"
)

// BenchmarkStart measures the start of a sandboxed task, including group, user, Landlock and
// seccomp. Run it with -tags companion for the small stage.
func BenchmarkStart(b *testing.B) {
	f := newFixture(b, nil)
	f.run(f.task("/bin/true"))
	for b.Loop() {
		b.StopTimer()
		cfg := f.task("/bin/sleep", "100")
		b.StartTimer()
		if _, err := f.StartTask(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkConfine measures a sidecar that does nothing, before its task starts: group, sandbox, end
// and removal of the group.
func BenchmarkConfine(b *testing.B) {
	f := newFixture(b, nil)
	cfg := f.task("/bin/true")
	program, err := os.Open("/bin/true")
	if err != nil {
		b.Fatal(err)
	}
	defer program.Close()
	s := f.sidecar(cfg, "")
	s.Program, s.Args = program, []string{"true"}
	for b.Loop() {
		if exit, err := f.Confine(b.Context(), cfg, s); err != nil || exit.ExitCode != 0 {
			b.Fatalf("Confine() = %+v, %v", exit, err)
		}
	}
}

// BenchmarkSandbox measures the comparison that each task costs every minute.
func BenchmarkSandbox(b *testing.B) {
	f := newFixture(b, nil)
	cfg := f.task("/bin/sleep", "600")
	if _, err := f.StartTask(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := f.Sandbox(b.Context(), cfg.ID); err != nil {
			b.Fatal(err)
		}
	}
}
