package denials

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// withoutCommandLines returns the audit rule that makes the kernel omit records of command lines:
// arguments may be secrets, and the package does not use them. It is struct audit_rule_data:
//
//	flags, action, field_count, mask[64], fields[64], values[64], fieldflags[64], buflen
func withoutCommandLines() []byte {
	const words, array = 3 + 64*4 + 1, 64
	rule := make([]byte, 4*words)
	put := func(word int, v uint32) { binary.NativeEndian.PutUint32(rule[4*word:], v) }
	put(0, unix.AUDIT_FILTER_EXCLUDE)
	put(1, unix.AUDIT_NEVER)
	put(2, 1)
	put(3+array, unix.AUDIT_MSGTYPE)
	put(3+2*array, unix.AUDIT_PROCTITLE)
	put(3+3*array, unix.AUDIT_EQUAL)
	return rule
}

// hideCommandLines adds the rule, and reports whether it was new.
func hideCommandLines() (added bool, err error) {
	_, err = ask(unix.AUDIT_ADD_RULE, unix.NLM_F_REQUEST|unix.NLM_F_ACK, withoutCommandLines())
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keep command lines out of audit records: %w", err)
	}
	return true, nil
}

// showCommandLines removes the rule, if it still exists.
func showCommandLines() error {
	_, err := ask(unix.AUDIT_DEL_RULE, unix.NLM_F_REQUEST|unix.NLM_F_ACK, withoutCommandLines())
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("let command lines into audit records again: %w", err)
	}
	return nil
}
