package attack

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stay is the main function of a victim. It writes the canary to its secrets, its own and its
// shared directory, then prints its process ID. It runs until it is stopped.
func stay(args []string) int {
	canary := args[0]
	for dir, name := range map[string]string{"NOMAD_SECRETS_DIR": "secret", "NOMAD_TASK_DIR": "data", "NOMAD_ALLOC_DIR": "data/data"} {
		at := os.Getenv(dir)
		if at == "" {
			continue
		}
		err := os.WriteFile(filepath.Join(at, name), []byte(canary), 0o666)
		if _, there := os.Stat(filepath.Join(at, name)); err != nil && there != nil { // written by another task
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGINT, unix.SIGTERM)
	fmt.Println("up", os.Getpid())
	<-ended
	return 0
}
