"""Where a process stands among those of its run, as launchers say it."""

from modules.world.launch import ADDRESS, Place, place_in, variables_of


def test_a_process_that_nothing_has_launched_is_alone():
    assert place_in({}) == Place() == place_in({"WORLD_SIZE": "1", "RANK": "0"})


def test_processes_that_are_started_here_know_their_places():
    variables = variables_of(3, device="cpu", threads=2)
    place = place_in({**variables, "RANK": "2", "LOCAL_RANK": "2", ADDRESS: "here:1:x"})
    assert place == Place(2, 3, 2, "127.0.0.1", "here:1:x", is_on_cpu=True)
    assert variables["OMP_NUM_THREADS"] == "2"
    assert not place_in(variables_of(3, device="cuda", threads=0)).is_on_cpu


def test_processes_of_several_computers_know_the_first_one():
    told = {"WORLD_SIZE": "16", "RANK": "9", "LOCAL_RANK": "1"}
    place = place_in({**told, "MASTER_ADDR": "node0"})
    assert (place.rank, place.local_rank) == (9, 1)
    assert (place.host, place.address) == ("node0", "")


def test_a_launcher_that_asks_for_the_cpu_gets_it_whatever_the_config_says():
    place = place_in({"WORLD_SIZE": "2", "LOCAL_RANK": "1", "ACCELERATE_USE_CPU": "True"})
    assert place.device_of("cuda:1") == ("cpu", 1)
    assert Place().device_of("cuda:1") == ("cuda:1", 0)
