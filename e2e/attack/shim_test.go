package attack_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// shimABI is the variable with the Landlock version that the agent sees; 0 means none.
const shimABI = "ATTACK_LANDLOCK_ABI"

// shimAlone is the variable that makes user namespaces unavailable to the agent.
const shimAlone = "ATTACK_NO_USER_NAMESPACES"

// simulated returns the kernel that the variables select, or false for the real one.
func simulated() (testkernel.Kernel, bool) {
	abi, alone := os.Getenv(shimABI), os.Getenv(shimAlone) != ""
	if abi == "" {
		return testkernel.Kernel{NoUserNamespaces: alone}, alone
	}
	n, err := strconv.Atoi(abi)
	if err != nil {
		panic(err)
	}
	return testkernel.Kernel{LandlockABI: n, NoLandlock: n == 0, NoUserNamespaces: alone}, true
}

// underShim runs this program again on a simulated kernel and returns its exit code.
func underShim(k testkernel.Kernel) int {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), shimABI+"=", shimAlone+"=") // the last value of a name counts
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := k.Start(cmd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s) //nolint:errcheck // it may have ended already
		}
	}()
	cmd.Wait() //nolint:errcheck // the exit code has the result
	return cmd.ProcessState.ExitCode()
}
