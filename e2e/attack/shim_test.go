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

// shimABI names the variable that makes the agent run as on a kernel with that version
// of Landlock; 0 is one without.
const shimABI = "ATTACK_LANDLOCK_ABI"

// shimAlone names the variable that makes the agent run where user namespaces are forbidden.
const shimAlone = "ATTACK_NO_USER_NAMESPACES"

// simulated is the kernel that the variables ask for; false for the one that runs.
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

// underShim runs this program again below a simulated kernel, and ends as it does.
func underShim(k testkernel.Kernel) int {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), shimABI+"=", shimAlone+"=") // the last of a name counts
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
	cmd.Wait() //nolint:errcheck // how it ended is its exit code
	return cmd.ProcessState.ExitCode()
}
