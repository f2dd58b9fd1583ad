//! The suite that every backend must pass: one file per topic, each scenario on a store of its own.
//!
//! A backend calls [`compliance_suite!`](crate::compliance_suite) with a function that makes a fresh
//! store and runs one scenario on it; every scenario becomes a test of its own, so that they run in
//! parallel. After each scenario the executable invariants are checked on the whole state.
//! A change of behaviour starts here.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code that several crates share")]

pub mod accounts;
pub mod artifacts;
pub mod attribution;
pub mod band;
pub mod cancels;
pub mod claims;
pub mod control;
pub mod dependencies;
pub mod devices;
pub mod explained;
pub mod gangs;
pub mod gates;
pub mod health;
pub mod history;
pub mod images;
pub mod jobs;
pub mod leadership;
pub mod lease_terms;
pub mod leases;
pub mod lists;
pub mod outlook;
pub mod output;
pub mod parity;
pub mod parts;
pub mod pools;
pub mod quotas;
pub mod reclaim;
pub mod rounds;
pub mod rules;
pub mod secrets;
pub mod sets;
pub mod stage;
pub mod standing;
pub mod submissions;
pub mod sweeps;
pub mod times;
pub mod unique;
pub mod uploads;
pub mod usage;
pub mod visibility;
pub mod webhooks;
pub mod workers;

pub use stage::{Scenario, Stage};

/// Turns every scenario into a test. `$run` takes a [`Scenario`](crate::compliance::Scenario), makes a
/// fresh store with the policies that it wants, and drives the scenario to its end.
#[macro_export]
macro_rules! compliance_suite {
    ($run:ident) => {
        $crate::compliance_suite! { @topics $run;
            jobs {
                add_job_returns_a_unique_id, get_job_round_trip, get_job_not_found, fields_round_trip,
                default_fields, done_sets_done_at, failure_requeues_then_fails, requeue_clears_done_at,
                events_tell_the_whole_story, checkpoint_is_guarded_by_its_epoch_and_kept_byte_by_byte,
            }
            claims {
                claim_returns_the_job, claim_on_an_empty_store, claim_skips_what_is_not_pending,
                parallel_claims_never_share_a_job, priority_then_age, a_registered_worker_gets_only_what_fits,
                several_asks_of_one_worker_share_its_room, slots_bound_a_worker, tags_are_required,
                an_unregistered_claimer_takes_anything, a_claimer_that_gives_its_name_gets_a_record, stopping_work_still_takes_room,
                work_that_cannot_fit_hides_nothing, a_batch_sees_what_it_released,
            }
            standing {
                who_has_had_much_goes_behind_who_has_not, a_short_stop_costs_no_place,
                time_is_counted_once_as_run_or_as_waited, a_gang_that_has_had_much_goes_behind_another,
                an_edit_of_the_priority_moves_a_job, who_has_waited_for_very_long_is_pinned_and_goes_first,
                no_more_than_a_tenth_of_the_pool_is_pinned, a_gang_of_any_size_may_be_the_one_that_is_pinned,
                what_is_cancelled_is_no_longer_pinned, ranks_that_another_policy_wrote_are_written_anew,
            }
            pools {
                each_pool_has_the_order_of_its_policy, what_holds_up_its_pool_holds_up_no_other,
                guests_go_behind_the_jobs_of_a_pool, nobody_of_a_pool_is_stopped_for_a_guest,
                levels_and_their_stops_are_those_of_the_pool,
                what_a_pool_has_pinned_is_measured_by_its_workers,
                an_owner_takes_back_from_another_pool_what_it_lent,
            }
            dependencies {
                no_dependencies_is_pending, dependencies_start_blocked_and_round_trip, claim_skips_blocked,
                released_when_all_are_done, chain_releases_one_level_at_a_time, diamond_releases_once,
                a_done_dependency_does_not_block, failure_ends_the_chain, cancel_ends_the_chain,
                a_failed_dependency_ends_a_new_job_at_once, one_failed_parent_is_enough,
                unknown_dependency_is_refused,
            }
            submissions {
                references_within_a_batch, a_cycle_is_spelled_out, atomic_takes_all_or_none,
                others_survive_a_refused_one, an_idempotency_key_returns_the_first_job,
                order_of_a_batch_is_kept, impossible_needs_are_flagged, a_key_names_one_job_and_no_other,
            }
            leadership {
                one_at_a_time_leads_until_its_lease_ends, an_expired_lease_that_nobody_took_is_renewed,
                a_role_that_is_given_up_is_free_at_once, a_pass_under_a_term_that_is_over_changes_nothing,
                others_in_the_batch_are_not_concerned,
            }
            leases {
                a_stale_lease_changes_nothing, the_same_report_twice_is_harmless,
                a_contradicting_report_is_refused, the_holder_may_report_without_a_lease,
                anonymous_reports_follow_the_status, release_refunds_the_attempt, leases_only_grow,
                an_anonymous_report_does_not_end_what_another_took_over,
                a_worker_that_takes_its_own_job_again_may_report_anonymously,
                who_lost_a_job_is_remembered_over_further_losses,
            }
            cancels {
                cancel_of_waiting_work_is_immediate, cancel_of_running_work_orders_a_stop,
                the_epoch_acknowledges_a_stop_once, a_report_under_lease_ends_a_stop,
                anonymous_reports_do_not_end_a_stop, cancel_repeats_and_refusals,
            }
            sweeps {
                silence_requeues, silence_with_no_attempt_left_fails, a_heartbeat_keeps_the_lease,
                the_bound_is_strict, silence_counts_only_while_somebody_listens,
                a_report_before_the_sweep_is_never_overwritten, unanswered_stops_are_forced,
                retention_removes_old_ends_only, the_next_deadline_is_known,
                finished_jobs_are_read_whole_and_removed_by_name, the_last_position_outlives_its_event,
            }
            lease_terms {
                a_lease_lasts_as_long_as_it_says, a_lease_ends_while_somebody_listens,
                a_stop_is_forced_when_the_lease_has_ended,
                a_job_that_is_not_to_run_again_after_a_loss_never_does,
            }
            parts {
                parts_of_the_last_checkpoint_stay, parts_go_with_their_job, schedulers_know_each_other,
            }
            artifacts {
                artifacts_are_listed_by_attempt_and_name, an_artifact_that_comes_again_replaces_the_first,
                only_the_holder_of_the_lease_leaves_artifacts, artifacts_keep_within_their_bounds,
                bytes_count_for_their_queue, artifacts_go_with_their_job,
                old_artifacts_go_and_their_names_stay,
            }
            output {
                moved_output_is_read_as_it_was_kept, the_longest_copy_of_output_stays,
                old_output_goes_and_its_length_stays, moved_output_goes_with_its_job,
            }
            times {
                not_before_delays_the_start, back_off_delays_the_next_attempt, requeue_codes_cost_nothing,
                retry_on_is_obeyed, a_deadline_ends_what_waits, a_deadline_stops_what_runs,
                an_overrun_is_stopped_and_fails_as_timeout, a_timeout_report_is_a_failure_with_its_reason,
                an_attempt_out_of_memory_is_a_failure_of_its_own,
                an_attempt_out_of_memory_is_followed_by_one_with_more_up_to_the_largest_worker,
                a_gang_that_ran_out_of_memory_asks_for_more_as_a_whole,
                alarms_are_due_in_time, another_worker_is_preferred_after_a_failure,
            }
            control {
                hold_and_release, a_blocked_job_can_be_held, held_at_submit, retry_runs_again,
                retry_revives_what_ended_with_it,
                retry_revives_those_that_two_ways_lead_to, edit_changes_order_and_fit, edit_is_for_waiting_jobs,
                delete_is_for_ended_jobs, one_batch_may_cancel_and_delete,
            }
            gates {
                a_paused_queue_starts_nothing, a_rate_bounds_starts, a_key_bounds_what_runs_at_once,
                parallel_claims_respect_a_key, the_smallest_limit_of_a_key_counts, why_names_the_gate,
            }
            quotas {
                idle_quota_is_lent_and_comes_back, borrowing_and_lending_have_limits, work_that_is_not_preemptible_stays_within_its_own, limits_bound_what_runs_in_a_tree_and_of_a_user, weights_share_what_there_is, jobs_without_a_queue_take_their_turn, priority_goes_before_share, parallel_claims_respect_a_quota, a_gang_fits_its_quota_whole_or_waits, a_cycle_of_queues_is_refused, a_smaller_quota_stops_nobody, standings_tell_what_is_used_lent_and_waiting, a_queue_without_terms_is_as_before, a_queue_is_forgotten_when_nothing_is_left_in_it,
            }
            reclaim {
                an_owner_takes_back_what_it_lent, a_gang_takes_back_what_its_queue_lent,
                quota_is_taken_back_where_room_is_not_what_lacks, what_may_not_be_stopped_stays,
                owners_are_not_stopped_for_borrowers, more_service_gives_way_to_less,
                equal_service_stops_nobody, stops_that_priority_does_not_demand_have_a_budget,
                an_urgent_job_stops_less_urgent_work_of_its_full_queue,
                an_urgent_gang_stops_as_many_of_its_full_queue_as_it_needs,
                what_is_given_up_in_vain_is_free_again,
            }
            history {
                runs_before_say_what_to_expect, one_batch_teaches_in_order_and_old_series_are_forgotten,
                what_is_expected_is_foreseen_and_lets_short_jobs_pass,
            }
            gangs {
                a_gang_is_taken_whole_and_waits, a_placed_gang_is_claimed_by_its_workers_only, too_few_workers_place_nothing, running_singles_and_stopping_tasks_take_room, a_failure_drains_the_gang_and_it_starts_again, failures_of_one_task_exhaust_the_gang, a_task_is_done_when_all_of_its_gang_are, a_cancelled_gang_takes_those_with_it_that_had_finished, keep_done_lets_the_others_start_again, a_stale_reservation_is_placed_again_in_the_same_pass, a_worker_that_does_not_claim_is_avoided, two_silent_tasks_make_one_drain, silent_workers_are_forced_out_of_a_drain, an_exit_without_proof_is_believed_after_a_while, an_acknowledgement_counts_once_and_by_its_epoch, a_cancelled_gang_ends_as_one, a_preempted_gang_comes_back_at_no_cost, a_task_handed_back_costs_nobody, a_gang_counts_once_where_others_depend_on_it, a_gang_waits_for_what_it_depends_on, a_gang_may_start_with_fewer, tasks_may_share_a_worker, ports_are_given_once, ports_come_back_when_nobody_came_for_them, ports_of_tasks_that_were_taken_back_are_free, a_task_that_was_quick_is_still_a_peer, a_lost_answer_is_given_again, a_checkpoint_is_saved_while_it_runs,
            }
            rounds {
                nobody_starts_before_all_are_prepared, the_last_one_prepared_wakes_all_workers,
                a_claim_of_a_round_is_answered_again, a_round_that_is_not_claimed_whole_is_taken_back_unstarted,
                a_worker_lost_before_the_start_costs_no_attempt, a_task_that_cannot_be_prepared_costs_no_attempt,
                a_stop_between_preparation_and_start_leaves_nothing,
                workers_that_do_not_prepare_start_at_their_claim,
            }
            outlook {
                small_jobs_do_not_starve_a_gang, what_leaves_the_room_may_enter_until_it_is_used_up,
                a_gang_uses_up_what_is_spare_beside_kept_room,
                a_gang_without_foreseeable_start_is_passed_for_a_while,
                a_single_makes_room_for_a_more_important_gang, a_gang_makes_room_for_a_more_important_single,
                nobody_stops_when_it_would_not_help,
            }
            devices {
                a_worker_keeps_its_devices_and_labels, whole_devices_are_given_once_and_come_back,
                shares_fill_a_device_and_never_mix_with_whole_ones, memory_of_each_device_counts_and_why_says_so,
                a_worker_that_only_counts_is_served_as_before,
                devices_of_jobs_that_were_told_none_are_not_given_away,
                devices_outlast_a_new_registration_and_a_requeue, an_exclusive_job_has_a_worker_for_itself,
                a_gang_gets_its_devices_with_its_reservation, parallel_claims_never_share_a_device,
                a_gang_is_placed_by_labels,
            }
            explained {
                classes_say_who_holds_which_workers_and_until_when, a_change_that_is_suggested_lets_the_job_start,
                a_time_limit_that_passes_kept_room_is_suggested,
                who_goes_first_is_counted_in_its_queue_where_queues_take_turns,
                a_worker_in_quarantine_is_named_only_where_it_could_help,
                the_whole_cluster_says_what_waits_for_what_and_what_is_idle,
            }
            accounts {
                accounts_are_created_changed_and_removed, the_last_admin_stays, a_credential_goes_with_its_user,
                a_join_token_is_used_as_often_as_it_may_be, a_rotated_key_is_good_for_a_while,
                a_revoked_worker_holds_nothing, every_change_leaves_a_line,
                a_login_at_a_provider_finds_or_makes_its_account, an_account_is_linked_to_one_subject,
            }
            attribution {
                users_workers_and_the_scheduler_are_named, who_has_no_name_is_a_worker_or_nobody,
                what_follows_from_an_end_is_the_schedulers, stops_say_who_wanted_them,
                who_enters_a_job_is_written_down,
                tasks_of_a_gang_say_who_stopped_them, a_batch_keeps_its_callers_apart,
                what_operators_change_leaves_a_line,
            }
            images { a_pull_is_told_by_the_holder_and_kept_until_it_is_over }
            visibility {
                pages_of_what_is_visible_join_without_loss, nothing_visible_is_an_empty_list,
                the_viewers_of_a_queue_see_its_jobs, of_a_pipeline_only_visible_steps_are_shown,
                sets_of_which_nothing_is_visible_are_left_out, a_private_job_stays_private,
            }
            webhooks {
                a_webhook_begins_with_the_next_event, webhooks_are_paused_resumed_and_removed,
                a_position_never_goes_back, dead_letters_are_kept_listed_and_removed,
                dead_letters_are_sent_again_on_request, old_dead_letters_give_way, webhooks_are_bounded,
            }
            secrets {
                versions_of_a_secret_follow_one_another, of_two_changes_in_one_batch_one_is_refused,
                a_worker_says_all_its_keys_at_once,
            }
            uploads {
                an_upload_is_declared_then_complete_and_jobs_name_it, a_job_names_only_what_is_there,
                uses_outlive_the_submission_and_keep_an_upload, while_old_uploads_are_removed_none_is_declared,
                an_upload_in_use_is_not_forgotten,
            }
            rules {
                every_rule_with_every_pair_of_ends, rules_of_one_job_are_judged_by_group,
                what_is_not_wanted_is_skipped, if_unmet_decides, dependencies_that_ended_before_count,
                a_retried_dependency_is_counted_anew, why_names_only_what_is_waited_for,
            }
            sets {
                a_pipeline_is_taken_whole, a_refused_pipeline_leaves_nothing, a_key_returns_the_first_set,
                steps_are_added_to_a_pipeline, elements_are_listed_and_counted, outputs_are_kept_and_handed_on,
                retention_removes_empty_sets, a_cancelled_pipeline_is_retried_in_order, a_preview_ends_nothing,
            }
            unique {
                the_unfinished_job_is_returned, a_waiting_job_gives_way, a_job_of_another_user_does_not_give_way, one_batch_makes_one_job,
                parallel_submits_make_one_job, a_follower_of_the_same_batch_goes_with_the_replaced,
            }
            usage {
                attempts_are_kept_with_the_job_and_summed_up, sums_are_by_hour_and_outlive_their_jobs,
                what_nobody_measured_is_counted_by_its_time, tasks_of_a_gang_are_counted_each,
                sums_and_ended_jobs_are_shown_to_those_who_may_see_them,
            }
            health {
                a_black_hole_is_set_aside_with_the_evidence, bad_jobs_everywhere_set_nobody_aside,
                a_probe_ends_a_quarantine, a_quarantine_is_ended_by_hand,
                a_gang_tries_a_worker_in_quarantine_only_where_it_must,
                a_quarantine_survives_a_new_registration, a_job_that_takes_its_workers_along_is_held,
            }
            workers {
                register_makes_active, register_again_keeps_the_first_time, heartbeat_of_unknown_worker,
                silent_workers_go_offline_and_come_back, usage_is_derived_from_jobs, a_claim_is_a_sign_of_life,
            }
            lists {
                empty_lists, filters_hold_together, jobs_of_a_worker_are_listed,
                awkward_texts_are_kept_and_found, pages_join_without_loss,
                counts_leave_out_what_ended, events_are_numbered_and_readable_from_a_position,
                why_names_the_cause,
            }
        }
    };
    (@topics $run:ident; $($topic:ident { $($name:ident),+ $(,)? })+) => {
        $(mod $topic {
            $(
                #[test]
                fn $name() {
                    super::$run($crate::compliance::Scenario::new(stringify!($topic), |stage| {
                        Box::pin(async move { $crate::compliance::$topic::$name(&stage).await; stage.check().await; })
                    }));
                }
            )+
        })+
    };
}
