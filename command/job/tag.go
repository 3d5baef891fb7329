package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func tagApplyCommand() term.Command {
	return term.Command{
		Name: "job tag apply", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Give a version of a job a tag",
		Long:  "A tagged version is kept until the tag is removed or the job is purged. 'job revert' and 'job history -diff-tag' accept tags.",
		Setup: func(f *term.Flags) term.Run {
			name := f.String("name", "", "The `name` of the tag. Required.")
			description := f.String("description", "", "A `text` that describes the version.")
			version := f.String("version", "", "The `version` of the job. Default: the current one.")
			return func(ctx context.Context, e *term.Env) error {
				if *name == "" {
					return errors.New("A version tag name is required: use -name")
				}
				req := &api.TagVersionRequest{Description: *description, Latest: *version == ""}
				if *version != "" {
					n, err := strconv.ParseUint(*version, 10, 64)
					if err != nil {
						return fmt.Errorf("Error parsing version %q: want a number", *version)
					}
					req.Version = n
				}
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				if _, err := c.Jobs().TagVersionOpts(stub.ID, *name, req, writeIn(ctx, stub.Namespace)); err != nil {
					return fmt.Errorf("Error tagging job version: %w", err)
				}
				which := "current version"
				if *version != "" {
					which = "version " + *version
				}
				e.Printf("Tagged %s of job %q as %q\n", which, stub.ID, *name)
				return nil
			}
		},
	}
}

func tagUnsetCommand() term.Command {
	return term.Command{
		Name: "job tag unset", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Remove a version tag of a job",
		Setup: func(f *term.Flags) term.Run {
			name := f.String("name", "", "The `name` of the tag. Required.")
			return func(ctx context.Context, e *term.Env) error {
				if *name == "" {
					return errors.New("A version tag name is required: use -name")
				}
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				if _, err := c.Jobs().UntagVersion(stub.ID, *name, writeIn(ctx, stub.Namespace)); err != nil {
					return fmt.Errorf("Error untagging job version: %w", err)
				}
				e.Printf("Removed tag %q of job %q\n", *name, stub.ID)
				return nil
			}
		},
	}
}
