// Package enterprise holds the commands for Nomad Enterprise: license get and operator utilization.
//
// Agents of this project answer as the Community Edition of Nomad does: "Nomad Enterprise only
// endpoint". The commands then exit with 1. They work with an agent of Nomad Enterprise.
package enterprise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// errCommunity is the error of an agent without a license.
var errCommunity = errors.New("Nomad Enterprise only endpoint")

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{licenseCommand(), utilizationCommand()}
}

func licenseCommand() term.Command {
	return term.Command{
		Name: "license get", Short: "Show the license of a Nomad Enterprise agent",
		Long: "Prints JSON. An agent without a license is an error.\n\n    nomad license get",
		Setup: func(*term.Flags) term.Run {
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				var license json.RawMessage
				_, err = c.Raw().Query("/v1/operator/license", &license, (&api.QueryOptions{}).WithContext(ctx))
				if err == nil && len(license) == 0 {
					err = errCommunity
				}
				if err != nil {
					return fmt.Errorf("Error getting license: %w", err)
				}
				e.Println(string(license))
				return nil
			}
		},
	}
}

func utilizationCommand() term.Command {
	return term.Command{
		Name: "operator utilization", Short: "Write a utilization report of a Nomad Enterprise cluster",
		Long: "Writes the report to a new file in the current directory, or to -output. Clusters without a license refuse it.\n\n" +
			"    nomad operator utilization -today-only -output=report.json",
		Setup: func(f *term.Flags) term.Run {
			f.Refuse("message", "notes in utilization reports")
			output := f.String("output", "", "Write to this new `file`.")
			today := f.Bool("today-only", false, "Report only the current day.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				path := "/v1/operator/utilization"
				if *today {
					path += "?today=true"
				}
				var report struct{ Bundle []byte }
				if _, err := c.Raw().Write(path, nil, &report, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error generating utilization report: %w", err)
				}
				return write(e, *output, report.Bundle)
			}
		},
	}
}

// write writes a report to a new file that only its owner can read.
func write(e *term.Env, name string, report []byte) error {
	if name == "" {
		name = "nomad-utilization-" + time.Now().UTC().Format("2006-01-02-150405") + "Z.json"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(report)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("Error writing utilization report: %w", err)
	}
	e.Printf("Wrote %s\n", name)
	return nil
}
