package volume

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func claimListCommand() term.Command {
	c := term.Command{Name: "volume claim list", Args: "[claim]", MaxArgs: 1, Short: "List the claims of groups with sticky volumes",
		Long: "The argument is a prefix of the ID of a claim."}
	var detail *term.Detail
	return term.Query(c, func(f *term.Flags) term.Ask[[]*api.TaskGroupHostVolumeClaim] {
		req := &api.TaskGroupHostVolumeClaimsListRequest{}
		f.StringVar(&req.JobID, "job", "", "List only claims of the job with this `ID`.")
		f.StringVar(&req.TaskGroup, "group", "", "List only claims of this `group`.")
		f.StringVar(&req.VolumeName, "volume-name", "", "List only claims on volumes with this `name`.")
		detail = f.Detail("Print complete IDs.")
		return func(ctx context.Context, e *term.Env, c *api.Client) ([]*api.TaskGroupHostVolumeClaim, error) {
			list, err := claims(ctx, e, c, req)
			if err == nil && len(list) == 0 && e.Arg(0) != "" {
				err = fmt.Errorf("No claims with prefix or ID %q found", e.Arg(0))
			}
			return list, err
		}
	}, func(e *term.Env, list []*api.TaskGroupHostVolumeClaim) {
		if len(list) == 0 {
			e.Println("No host volume claims")
			return
		}
		e.Println(claimTable(list, *detail))
	})
}

func claims(ctx context.Context, e *term.Env, c *api.Client,
	req *api.TaskGroupHostVolumeClaimsListRequest) ([]*api.TaskGroupHostVolumeClaim, error) {
	list, _, err := c.TaskGroupHostVolumeClaims().List(req, (&api.QueryOptions{Namespace: e.Namespace(), Prefix: e.Arg(0)}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying volume claims: %w", err)
	}
	return list, nil
}

func claimTable(list []*api.TaskGroupHostVolumeClaim, detail term.Detail) string {
	rows := []string{"ID|Namespace|Job ID|Volume ID|Volume Name"}
	for _, c := range list {
		rows = append(rows, term.Row(detail.ID(c.ID), c.Namespace, c.JobID, detail.ID(c.VolumeID), c.VolumeName))
	}
	return term.Table(rows)
}

func claimDeleteCommand() term.Command {
	return term.Command{
		Name: "volume claim delete", Args: "<claim>", MinArgs: 1, MaxArgs: 1,
		Short: "Delete a claim, so that the group may use another volume",
		Long:  "The argument is a prefix of the ID of a claim. The volume and its data remain.",
		Setup: func(f *term.Flags) term.Run {
			yes := f.Bool("y", false, "Do not ask.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				list, err := claims(ctx, e, c, &api.TaskGroupHostVolumeClaimsListRequest{})
				if err != nil {
					return err
				}
				switch len(list) {
				case 0:
					return fmt.Errorf("No claims with prefix or ID %q found", e.Arg(0))
				case 1:
				default:
					return fmt.Errorf("Prefix matched multiple claims\n\n%s", claimTable(list, term.Full))
				}
				claim := list[0]
				if !*yes && !e.Confirm(fmt.Sprintf("Delete the claim of group %q of job %q on volume %q? Its next "+
					"allocation may get another volume. [y/N]", claim.TaskGroupName, claim.JobID, claim.VolumeName)) {
					e.Println("Cancelled: nothing deleted")
					return nil
				}
				if _, err := c.TaskGroupHostVolumeClaims().Delete(claim.ID,
					(&api.WriteOptions{Namespace: claim.Namespace}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error deleting volume claim: %w", err)
				}
				e.Printf("Successfully deleted volume claim %q!\n", claim.ID)
				return nil
			}
		},
	}
}
