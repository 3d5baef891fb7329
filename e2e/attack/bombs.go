package attack

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bomb tries to use more of a resource than the task may have. Each kind has an upper bound, so
// that a missing limit shows as a number and does not stop the machine.
//
//	fork N      starts up to N processes, prints their number, and stays
//	memory MB   touches up to MB of memory, then prints the amount
//	cpu THREADS uses the processor until it is ended
//	log MB      writes up to MB to standard output
//	fd N        opens up to N descriptors, then prints their number
//	disk MB     writes up to MB to its secrets, then prints the amount in KiB
//	files N     creates up to N empty files in its secrets, then prints their number
func bomb(args []string) int {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	switch args[0] {
	case "fork":
		return forkBomb(n)
	case "memory":
		return memoryBomb(n)
	case "cpu":
		return cpuHog(n)
	case "log":
		return logBomb(n)
	case "fd":
		return descriptorBomb(n)
	case "disk":
		return diskBomb(n)
	case "files":
		return fileBomb(n)
	}
	fmt.Fprintf(os.Stderr, "no bomb %q\n", args[0])
	return 2
}

// forkBomb starts processes and waits for a signal. The processes end with it, because it holds
// their standard input.
func forkBomb(n int) int {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer w.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGINT, unix.SIGTERM)
	got := 0
	var last *exec.Cmd
	for ; got < n; got++ {
		cmd := exec.Command(self(), "hold")
		cmd.Stdin = r
		if err = cmd.Start(); err != nil {
			break
		}
		last = cmd
	}
	if last != nil {
		last.Process.Kill() //nolint:errcheck // frees a thread for this program
		last.Wait()         //nolint:errcheck // killed
	}
	fmt.Printf("processes %d: %v\n", got, err)
	<-ended
	return 0
}

func memoryBomb(mb int) int {
	var reserved [][]byte
	for i := range mb {
		b := make([]byte, 1<<20)
		for at := 0; at < len(b); at += 4096 {
			b[at] = byte(i)
		}
		reserved = append(reserved, b)
	}
	fmt.Printf("memory %d MiB\n", len(reserved))
	return 0
}

func cpuHog(threads int) int {
	fmt.Println("burning")
	for range threads - 1 {
		go burn()
	}
	burn()
	return 0
}

func burn() {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); { // bounded on a busy machine
	}
}

func logBomb(mb int) int {
	line := strings.Repeat("x", 1023) + "\n"
	chunk := []byte(strings.Repeat(line, 1024))
	for range mb {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return 1
		}
	}
	fmt.Println("end")
	return 0
}

func descriptorBomb(n int) int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err == nil {
		lim.Cur = lim.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &lim) //nolint:errcheck // on failure fewer descriptors are available
	}
	got := 0
	var err error
	for ; got < n; got++ {
		if _, err = unix.Dup(1); err != nil {
			break
		}
	}
	fmt.Printf("descriptors %d: %v\n", got, err)
	return 0
}

func diskBomb(mb int) int {
	f, err := os.Create(filepath.Join(os.Getenv("NOMAD_SECRETS_DIR"), "fill"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer f.Close()
	kib := 0
	for ; kib < mb*1024; kib++ {
		if _, err = f.Write(make([]byte, 1024)); err != nil {
			break
		}
	}
	fmt.Printf("secrets %d KiB: %v\n", kib, err)
	return 0
}

func fileBomb(n int) int {
	dir, got := os.Getenv("NOMAD_SECRETS_DIR"), 0
	var err error
	for ; got < n; got++ {
		if err = os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(got)), nil, 0o600); err != nil {
			break
		}
	}
	fmt.Printf("files %d: %v\n", got, err)
	return 0
}
