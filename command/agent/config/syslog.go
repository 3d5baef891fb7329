package config

import (
	"fmt"
	"log/syslog"
	"slices"
	"strings"
)

// facilities are the names of syslog facilities in the order of their numbers. The numbers 12 to 15
// have no common name.
var facilities = []string{"KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV", "FTP",
	"", "", "", "", "LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6", "LOCAL7"}

// SyslogFacility parses the name of a syslog facility.
func SyslogFacility(name string) (syslog.Priority, error) {
	n := slices.Index(facilities, strings.ToUpper(name))
	if name == "" || n < 0 {
		return 0, fmt.Errorf("must be a facility such as LOCAL0, DAEMON or USER, not %q", name)
	}
	return syslog.Priority(n << 3), nil
}
