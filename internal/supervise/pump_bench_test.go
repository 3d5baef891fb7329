package supervise

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// benchBytes is what a task writes in one round of BenchmarkPump.
const benchBytes = 256 << 20

// BenchmarkPump compares the pump with cat: both move the output of a task from a pipe to files. The pump rotates
// files of 10 MiB, as by default.
func BenchmarkPump(b *testing.B) {
	block := bytes.Repeat([]byte("a line of a log, with a date and some words in it, as tasks write them\n"), 900)
	write := func(b *testing.B, to *os.File) {
		for sent := 0; sent < benchBytes; sent += len(block) {
			if _, err := to.Write(block); err != nil {
				b.Error(err)
				return
			}
		}
		to.Close()
	}
	b.Run("pump", func(b *testing.B) {
		b.SetBytes(benchBytes)
		for b.Loop() {
			p, task, _ := newStream(b, 10<<20)
			go p.run()
			write(b, task)
			<-p.done
			if p.err != nil {
				b.Fatal(p.err)
			}
		}
	})
	b.Run("cat", func(b *testing.B) {
		b.SetBytes(benchBytes)
		for b.Loop() {
			out, err := os.Create(filepath.Join(b.TempDir(), "out"))
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.CommandContext(b.Context(), "cat")
			cmd.Stdout = out
			pipe, task, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			cmd.Stdin = pipe
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			pipe.Close()
			write(b, task)
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			out.Close()
		}
	})
}
