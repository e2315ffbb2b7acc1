/* commands.h - the commands of `pleat`. argv[0] is "pleat NAME"; the result is the exit status. */
#ifndef PLEAT_BENCH_COMMANDS_H
#define PLEAT_BENCH_COMMANDS_H

int bench_command_ab(int argc, char **argv);
int bench_command_replay(int argc, char **argv);
int bench_command_fit(int argc, char **argv);
int bench_command_probe(int argc, char **argv);
int bench_command_resident(int argc, char **argv);
int bench_command_driver(int argc, char **argv);
int bench_command_pairs(int argc, char **argv);
int bench_command_tail(int argc, char **argv);
int bench_command_sleep(int argc, char **argv);
int bench_command_convert(int argc, char **argv);
int bench_command_verify(int argc, char **argv);
int bench_command_works(int argc, char **argv);
int bench_command_top(int argc, char **argv);
int bench_command_demo(int argc, char **argv);

#endif
