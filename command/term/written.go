package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// output writes to a file or a pipe and keeps the first error, such as that of a full disk. Commands ignore the
// errors of printed lines. It is not used for a terminal.
type output struct {
	file *os.File
	mu   sync.Mutex // guards err
	err  error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err == nil && !errors.Is(err, syscall.EPIPE) { // a closed pipe ends the process by SIGPIPE
		o.err = err
	}
	return n, err
}

// recorded returns a writer to out that keeps errors, or out itself if it is a terminal or not a file.
func recorded(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok && f != nil && !(&Env{Out: f}).IsTerminal() {
		return &output{file: f}
	}
	return out
}

// ChildOut returns standard output for a child process: the file itself, so that no pipe lies between.
func (e *Env) ChildOut() io.Writer {
	if o, ok := e.Out.(*output); ok {
		return o.file
	}
	return e.Out
}

// written returns the exit code of a command that ended with code. A command whose output was not written fails.
func (a *adapted) written(code int) int {
	o, ok := a.out.(*output)
	if !ok || code != 0 {
		return code
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return code
	}
	fmt.Fprintf(a.err, "Error writing the output: %v\n", o.err)
	return 1
}
